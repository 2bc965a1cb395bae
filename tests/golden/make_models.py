#!/usr/bin/env python3
"""Makes the small random directories under tests/golden/models/ with transformers.

    make_models.py EN-DE.tsv.gz EN-FR.tsv.gz [MODEL]...

Each line of a corpus is English, tab, the other language; the committed models were made from
sentences of Tatoeba (tatoeba.org, CC BY 2.0 FR). Weights start random, with biases and layer norms
that are not trivial, and are trained for a few hundred steps: far too little to translate, enough
to behave like a model: spread logits, beams that differ, sentences that end at various lengths.
make_golden.py then computes what the models must answer.
"""

import gzip
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

import sentencepiece
import torch
from transformers import GenerationConfig, M2M100Config, MarianConfig, MarianTokenizer

import reference
from definition import COMBINED

MODELS = Path(__file__).resolve().parent / "models"
SENTENCES = 20000
SPM_SENTENCES = 600
BATCH = 48
AREA = {
    "key": "mean",
    "value": "sum",
    "top_k": 0,
    "temperature": 1.0,
    "encoder_self": {"width": [5, 3]},
    "decoder_self": {"width": [4, 1]},
    "decoder_cross": {"width": [2, 5]},
}
AREA_MEAN = {
    "key": "mean",
    "value": "mean",
    "encoder_self": {"width": [2, 6]},
    "decoder_self": {"width": [1, 7], "value": "sum"},
    "decoder_cross": {"width": [3, 4]},
}
AREA_CHAR = {
    "key": "mean",
    "value": "sum",
    "encoder_self": {"width": [5, 5]},
    "decoder_self": {"width": [5, 5]},
    "decoder_cross": {"width": [5, 5]},
}
AREA_CONCAT = {
    "key": "concat",
    "value": "sum",
    "encoder_self": {"width": [4, 3]},
    "decoder_self": {"width": [3, 5]},
    "decoder_cross": {"width": [2, 5]},
}
AREA_MAX = {
    "key": "max_concat",
    "value": "max",
    "weights": "sigmoid",
    "encoder_self": {"width": [3, 1]},
    "decoder_self": {"width": [2, 4]},
    "decoder_cross": {"width": [4, 2]},
}
AREA_SUM = {
    "key": "sum",
    "value": "mean",
    "top_k": 6,
    "temperature": 0.7,
    "encoder_self": {"width": [5, 2]},
    "decoder_self": {"width": [1, 4]},
    "decoder_cross": {"width": [3, 6]},
}
SHAPE = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 128,
    "scale_embedding": True,
    "activation_function": "swish",
}
ODD = SHAPE | {
    "d_model": 72,
    "encoder_layers": 3,
    "decoder_layers": 1,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 100,
    "decoder_ffn_dim": 84,
    "scale_embedding": False,
    "activation_function": "gelu",
    "share_encoder_decoder_embeddings": False,
}
CHAR = SHAPE | {"d_model": 48, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96}
SMALL = SHAPE | {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 64,
    "share_encoder_decoder_embeddings": False,
}
M2M = SHAPE | {
    "d_model": 48,
    "encoder_layers": 3,
    "decoder_layers": 1,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 80,
    "activation_function": "relu",
}
AREAS = SHAPE | {"d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
# As Marian computes. Its epsilon is 1e-9; 1e-3 is one that scores show.
NUMERICS = AREAS | {"position_steps": 15, "layer_norm_epsilon": 1e-3}


def read_corpus(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t")[:2] for line in file]
    return random.Random(1).sample(rows, SENTENCES)


def train_spm(sentences, prefix, pieces):
    """No normalisation: its tables would be larger than the models (tokenizer/ tests them)."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(prefix),
        vocab_size=pieces,
        normalization_rule_name="identity",
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
    special = {"<unk>", "<s>", "</s>"}
    names = [processor.id_to_piece(i) for i in range(len(processor))]
    return [name for name in names if name not in special]


def vocabulary(*pieces, pad=None):
    """As OPUS-MT numbers pieces: the end first, unknown second, padding last (or at `pad`)."""
    names = list(dict.fromkeys(["</s>", "<unk>", *sum(pieces, [])]))
    names.insert(len(names) if pad is None else pad, "<pad>")
    return {name: i for i, name in enumerate(names)}


def numbered_as_m2m(*pieces):
    """As the recipe numbers pieces of pre-norm models."""
    names = list(dict.fromkeys(["<s>", "<pad>", "</s>", "<unk>", *sum(pieces, [])]))
    return {name: i for i, name in enumerate(names)}


def save_tokenizer(directory, corpus, pieces, separate=False, number=None):
    """Writes the tokenizer's files; returns the sizes of the two vocabularies."""
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        english, other = zip(*corpus[:SPM_SENTENCES])
        source = train_spm(english, work / "source", pieces)
        target = train_spm(other, work / "target", pieces + 20)
        number = number or vocabulary
        both = [number(source) if separate else number(source, target)]
        if separate:
            both.append(vocabulary(target, pad=both[0]["<pad>"]))
        files = [work / f"vocab{i}.json" for i in range(len(both))]
        for file, names in zip(files, both):
            file.write_text(json.dumps(names))
        tokenizer = MarianTokenizer(
            source_spm=str(work / "source.model"),
            target_spm=str(work / "target.model"),
            vocab=str(files[0]),
            target_vocab_file=str(files[1]) if separate else None,
            separate_vocabs=separate,
            source_lang="en",
            target_lang="de",
        )
        tokenizer.save_pretrained(directory)
        for name in ("source", "target"):
            shutil.copyfile(work / f"{name}.model", directory / f"{name}.spm")
    return len(both[0]), len(both[-1])


def save_byte_tokenizer(directory):
    config = {"tokenizer_class": "ByteTokenizer", "source_lang": "en", "target_lang": "fr"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def randomize(model, std):
    """Matrices with standard deviation std, layer norms and biases that are not trivial."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape)
            if "embed_positions" in name:
                if weight.requires_grad:  # learned, as mBART's
                    weight.copy_(noise * weight.shape[1] ** -0.5)
            elif name.endswith(("layer_norm.weight", "layernorm_embedding.weight")):
                weight.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                weight.copy_(0.2 * noise)
            elif "shared" in name or "embed_tokens" in name:
                weight.copy_(noise * weight.shape[1] ** -0.5)
            else:
                weight.copy_(std * noise)
        if model.config.model_type == "marian":
            model.final_logits_bias.normal_()
    clear_padding(model)


def no_ascii():
    """The ids of bytes that a text of plain ASCII does not hold."""
    return [*range(2, 2 + 0x20), *range(2 + 0x7F, 258)]


def keep_to_ascii(model):
    """Such bytes become so unlikely that no search takes them. M2M100 has no bias for that: see
    generation_config()."""
    if model.config.model_type != "marian":
        return
    with torch.no_grad():
        model.final_logits_bias[0, no_ascii()] = -30


def encoders(directory):
    """The functions text -> ids of the source and of the target, without end token."""
    if not (directory / "source.spm").exists():
        return [lambda text: [2 + byte for byte in text.encode()]] * 2
    tokenizer = MarianTokenizer.from_pretrained(directory)
    return (lambda text: tokenizer(text)["input_ids"][:-1],
            lambda text: tokenizer(text_target=text)["input_ids"][:-1])


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def train(model, directory, corpus, steps, longest):
    """A few hundred steps of Adam on short sentences."""
    end, pad = model.config.eos_token_id, model.config.pad_token_id
    source_ids, target_ids = encoders(directory)
    if model.config.vocab_size == 258:
        corpus = [pair for pair in corpus if pair[1].isascii()]
    pairs = [(source_ids(x) + [end], target_ids(y) + [end]) for x, y in corpus[:steps * BATCH // 4]]
    pairs = [pair for pair in pairs if max(map(len, pair)) <= longest]
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    model.train()
    for step in range(steps):
        batch = random.sample(pairs, BATCH)
        source = padded([x for x, _ in batch], pad)
        labels = padded([y for _, y in batch], -100)
        loss = model(input_ids=source, attention_mask=(source != pad).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * min(1, (step + 1) / 50) * (1 - step / steps)
        optimizer.step()
        clear_padding(model)
    model.eval()
    return loss.item()


def clear_padding(model):
    """The padding's embedding, with which MarianMT's generation starts, is zero in every model."""
    with torch.no_grad():
        for side in (model.model.encoder, model.model.decoder):
            side.embed_tokens.weight[model.config.pad_token_id] = 0


def shrink_keys(model, factor):
    """Divides the items' keys, and multiplies what reads them. The variance of alike items, which
    float32 cannot tell from its rounding, shrinks with them, next to the constant that is added."""
    with torch.no_grad():
        for attention in sum(reference.attentions(model).values(), []):
            if attention.area.key not in COMBINED:
                continue
            attention.k_proj.weight /= factor
            attention.k_proj.bias /= factor
            attention.area.magnify(factor)


def generation_config(config, **extra):
    bad = [config.pad_token_id]
    if config.model_type != "marian" and config.vocab_size == 258:
        bad += no_ascii()
    return GenerationConfig(
        num_beams=4,
        bad_words_ids=[[token] for token in bad],
        decoder_start_token_id=config.decoder_start_token_id,
        eos_token_id=config.eos_token_id,
        forced_eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
        max_length=62,
        **extra,
    )


def build_m2m(directory, corpus, shape, pieces):
    """What build() does, in the layout of the recipe's pre-norm models."""
    size, ids = 258, {"eos_token_id": 1, "pad_token_id": 0}
    if pieces:
        size, _ = save_tokenizer(directory, corpus, pieces, number=numbered_as_m2m)
        ids = {"eos_token_id": 2, "pad_token_id": 1}
    else:
        save_byte_tokenizer(directory)
    config = M2M100Config(
        vocab_size=size,
        decoder_start_token_id=ids["eos_token_id"],
        forced_eos_token_id=ids["eos_token_id"],
        dropout=0.0,
        attention_dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        **ids,
        **shape,
    )
    return reference.CLASSES["m2m_100"](config)


def build(directory, corpus, shape, pieces, spm):
    """Writes the tokenizer's files and returns a model whose sizes fit them."""
    if pieces:
        source, target = save_tokenizer(directory, corpus, pieces, **spm)
        ids = {"eos_token_id": 0, "pad_token_id": source - 1}
    else:
        save_byte_tokenizer(directory)
        source = target = 258
        ids = {"eos_token_id": 1, "pad_token_id": 0}
    config = MarianConfig(
        vocab_size=source,
        decoder_vocab_size=target,
        decoder_start_token_id=ids["pad_token_id"],
        forced_eos_token_id=ids["eos_token_id"],
        dropout=0.0,
        **ids,
        **shape,
    )
    return reference.CLASSES["marian"](config)


def make(name, corpus, shape, seed, pieces=0, area=None, dtype=torch.float32, std=0.15, steps=300,
         shard_size=None, spm=None, generation=None, shrink=1, kind="marian"):
    directory = MODELS / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    random.seed(seed)
    torch.manual_seed(seed)
    if kind == "m2m_100":
        model = build_m2m(directory, corpus, shape, pieces)
    else:
        model = build(directory, corpus, shape, pieces, spm or {})
    if area:
        model.config.area = area
        model.set_attn_implementation("area")
        reference.set_area(model, area)
    if "position_steps" in shape:
        reference.set_numerics(model, shape)
    randomize(model, std)
    if not pieces:
        keep_to_ascii(model)
    loss = train(model, directory, corpus, steps, 20 if pieces else 40)
    if shrink > 1:
        shrink_keys(model, shrink)
    model.generation_config = generation_config(model.config, **(generation or {}))
    model = model.to(dtype)
    model.config.dtype = dtype
    options = {"max_shard_size": shard_size} if shard_size else {}
    model.save_pretrained(directory, **options)
    size = sum(file.stat().st_size for file in directory.iterdir())
    print(f"{name:16} {model.num_parameters():8} parameters {size:8} bytes loss {loss:.2f}",
          flush=True)


def recipes(german, french):
    """Name -> arguments of make()."""
    renormalize = {"renormalize_logits": True}
    relu = SHAPE | {"activation_function": "relu"}
    return {
        "tiny-token": dict(corpus=german, shape=SHAPE, seed=1, pieces=260, generation=renormalize),
        "tiny-area": dict(corpus=german, shape=SHAPE, seed=2, pieces=220, area=AREA,
                          dtype=torch.bfloat16),
        "tiny-area-mean": dict(corpus=german, shape=relu, seed=3, pieces=200, area=AREA_MEAN,
                               dtype=torch.float16, shard_size="150KB", generation=renormalize),
        "tiny-char": dict(corpus=french, shape=CHAR, seed=4, area=AREA_CHAR, dtype=torch.float16),
        "odd-sizes": dict(corpus=german, shape=ODD, seed=5, pieces=120),
        "two-vocabs": dict(corpus=german, shape=SMALL, seed=6, pieces=140, dtype=torch.bfloat16,
                           spm={"separate": True}),
        "area-concat": dict(corpus=german, shape=AREAS, seed=7, pieces=140, area=AREA_CONCAT,
                            dtype=torch.bfloat16, shrink=512),
        "area-max": dict(corpus=german, shape=AREAS, seed=8, pieces=130, area=AREA_MAX,
                         dtype=torch.float16),
        "area-sum": dict(corpus=german, shape=AREAS, seed=9, pieces=120, area=AREA_SUM,
                         dtype=torch.bfloat16, shrink=256),
        "m2m-token": dict(corpus=german, shape=M2M, seed=10, pieces=160, kind="m2m_100",
                          dtype=torch.bfloat16, generation=renormalize),
        "m2m-area": dict(corpus=german, shape=AREAS, seed=12, pieces=120, area=AREA,
                         kind="m2m_100", dtype=torch.bfloat16),
        "marian-numerics": dict(corpus=german, shape=NUMERICS, seed=13, pieces=120,
                                dtype=torch.bfloat16),
    }


def main():
    torch.set_num_threads(1)
    models = recipes(read_corpus(sys.argv[1]), read_corpus(sys.argv[2]))
    for name in sys.argv[3:] or models:
        make(name, **models[name])


if __name__ == "__main__":
    main()
