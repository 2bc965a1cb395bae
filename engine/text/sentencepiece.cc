#include "text/sentencepiece.h"

#include <memory>
#include <new>
#include <sentencepiece_processor.h>
#include <string>
#include <string_view>
#include <vector>

#include "acre.h"

extern "C" {
#include "base/mem.h"
}

struct spm {
    sentencepiece::SentencePieceProcessor processor;
};

/* Runs `work` and turns what it throws into a status. */
template <typename Work> static int guarded(Work work)
{
    try {
        return work();
    } catch (const std::bad_alloc &) {
        return ACRE_ENOMEM;
    } catch (...) {
        return ACRE_EMODEL;
    }
}

extern "C" int spm_open(const char *data, size_t bytes, struct spm **spm)
{
    return guarded([&]() -> int {
        auto object = std::make_unique<struct spm>();
        if (!object->processor.LoadFromSerializedProto({data, bytes}).ok() ||
            object->processor.GetPieceSize() == 0)
            return ACRE_EMODEL;
        *spm = object.release();
        return 0;
    });
}

extern "C" void spm_close(struct spm *spm)
{
    delete spm;
}

extern "C" int spm_size(const struct spm *spm)
{
    return spm->processor.GetPieceSize();
}

extern "C" const char *spm_piece(const struct spm *spm, int number)
{
    return spm->processor.IdToPiece(number).c_str();
}

extern "C" int spm_find(const struct spm *spm, const char *piece, size_t piece_bytes)
{
    return spm->processor.PieceToId({piece, piece_bytes});
}

extern "C" int spm_encode(const struct spm *spm, const char *text, size_t text_bytes,
                          spm_piece_fn *piece, void *user)
{
    return guarded([&]() -> int {
        std::vector<std::string> pieces;
        if (!spm->processor.Encode({text, text_bytes}, &pieces).ok())
            return ACRE_EINPUT;
        for (const std::string &each : pieces)
            if (int status = piece(user, each.data(), each.size()))
                return status;
        return 0;
    });
}

/* Of the bytes that spell a character only the last has its range: the number of that one. */
static int last_byte(const sentencepiece::SentencePieceProcessor &processor,
                     const sentencepiece::ImmutableSentencePieceText &encoded, int i)
{
    const auto is_open_byte = [&](int at) {
        const auto &piece = encoded.pieces(at);
        return piece.begin() == piece.end() && processor.IsByte(piece.id());
    };
    while (is_open_byte(i) && i + 1 < static_cast<int>(encoded.pieces().size()))
        i++;
    return i;
}

extern "C" int spm_encode_ranges(const struct spm *spm, const char *text, size_t text_bytes,
                                 spm_range_fn *range, void *user)
{
    return guarded([&]() -> int {
        const auto encoded = spm->processor.EncodeAsImmutableProto({text, text_bytes});
        const int n = encoded.pieces().size();
        for (int i = 0; i < n; i++) {
            const auto &last = encoded.pieces(last_byte(spm->processor, encoded, i));
            if (int status = range(user, last.begin(), last.end() - last.begin()))
                return status;
        }
        return 0;
    });
}

extern "C" int spm_decode(const struct spm *spm, const char *const *pieces, size_t n, char **text,
                          size_t *text_bytes)
{
    return guarded([&]() -> int {
        const std::vector<std::string_view> list(pieces, pieces + n);
        std::string joined;
        if (!spm->processor.Decode(list, &joined).ok())
            return ACRE_EINPUT;
        *text = mem_copy_text(joined.data(), joined.size());
        *text_bytes = joined.size();
        return *text ? 0 : ACRE_ENOMEM;
    });
}
