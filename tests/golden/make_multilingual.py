#!/usr/bin/env python3
"""Makes tests/golden/multilingual/: models of many languages as transformers saves them, and what
they must answer (golden.json).

    make_multilingual.py EN-DE.tsv.gz EN-FR.tsv.gz [MODEL]...

As in make_models.py, weights start random and are trained for a few hundred steps, here between
English, German and French. Their tokenizers are transformers' own, with the languages of M2M100, of
NLLB-200 and of mBART-50. Sources and forced first tokens are what these tokenizers say;
translations and scores come from `generate` in float64.
"""

import io
import json
import random
import shutil
import sys
from pathlib import Path

import sentencepiece
import torch
import transformers
from transformers import (GenerationConfig, M2M100Config, M2M100ForConditionalGeneration,
                          M2M100Tokenizer, MBart50Tokenizer, MBartConfig,
                          MBartForConditionalGeneration, NllbTokenizer)
from transformers.models.mbart50.tokenization_mbart50 import (
    FAIRSEQ_LANGUAGE_CODES as MBART_LANGUAGE_CODES)
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

import make_golden
import make_models

MODELS = Path(__file__).resolve().parent / "multilingual"
SHAPE = make_models.AREAS | {"activation_function": "relu", "encoder_layers": 2}
STEPS = 400
SENTENCES = 12
PAIRS = [("en", "de"), ("en", "fr"), ("de", "en"), ("fr", "en")]
CODES = {"nllb": {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn"},
         "m2m": {"en": "en", "de": "de", "fr": "fr"},
         "mbart": {"en": "en_XX", "de": "de_DE", "fr": "fr_XX"}}
RUNS = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "num_hypotheses": 4},
    "penalty-0.6": {"beam_size": 4, "num_hypotheses": 2, "length_penalty": 0.6},
    "greedy-30": {"beam_size": 1, "min_length": 30, "max_length": 30},
    "beam-30": {"beam_size": 4, "num_hypotheses": 2, "min_length": 30, "max_length": 30},
    "at-most-5": {"beam_size": 4, "num_hypotheses": 4, "max_length": 5},
}


def train_spm(corpora, file, pieces, kind="bpe"):
    text = [side for corpus in corpora for pair in corpus[:300] for side in pair]
    made = io.BytesIO()  # a file's model would have the path of this machine in it
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=made, vocab_size=pieces, model_type=kind,
        character_coverage=1.0, normalization_rule_name="identity", num_threads=1, minloglevel=2)
    file.write_bytes(made.getvalue())


def m2m_tokenizer(directory, corpora):
    """vocab.json behind <s> <pad> </s> <unk>, as fairseq's dictionaries."""
    train_spm(corpora, directory / "sentencepiece.bpe.model", 180)
    spm = sentencepiece.SentencePieceProcessor(
        model_file=str(directory / "sentencepiece.bpe.model"))
    pieces = [spm.id_to_piece(i) for i in range(3, len(spm))]
    names = ["<s>", "<pad>", "</s>", "<unk>", *sorted(pieces)]
    (directory / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    tokenizer = M2M100Tokenizer(str(directory / "vocab.json"),
                                str(directory / "sentencepiece.bpe.model"))
    tokenizer.save_pretrained(directory)
    return len(names) + 100 + 8  # languages, and words that fairseq makes up


def nllb_tokenizer(directory, corpora):
    """Both files that published directories have: their languages stand behind the pieces."""
    train_spm(corpora, directory / "sentencepiece.bpe.model", 200)
    plain = NllbTokenizer.from_pretrained(directory)
    fast = json.loads(plain.backend_tokenizer.to_str())
    size = len(fast["model"]["vocab"])
    assert size == 201 and fast["model"]["vocab"]["<unk>"] == 3
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    fast["added_tokens"] = [
        {"id": i, "content": token, **flags, "special": True}
        for i, token in [*enumerate(("<s>", "<pad>", "</s>", "<unk>")),
                         *enumerate([*FAIRSEQ_LANGUAGE_CODES, "<mask>"], size)]]
    fast["post_processor"] = None
    (directory / "tokenizer.json").write_text(json.dumps(fast, ensure_ascii=False))
    config = {"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn", "tgt_lang": None,
              "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>",
              "mask_token": "<mask>", "additional_special_tokens": FAIRSEQ_LANGUAGE_CODES}
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return size + 202 + 3


def mbart_tokenizer(directory, corpora):
    """Both files that directories have; its languages are in that of transformers only."""
    train_spm(corpora, directory / "sentencepiece.bpe.model", 220, "unigram")
    MBart50Tokenizer.from_pretrained(directory).save_pretrained(directory)
    config = {"src_lang": None, "tgt_lang": None, "tokenizer_class": "MBart50Tokenizer"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return 220 + 1 + len(MBART_LANGUAGE_CODES) + 1  # <pad>, languages, <mask>


FAMILIES = {
    "m2m": (m2m_tokenizer, M2M100Tokenizer, M2M100Config, M2M100ForConditionalGeneration),
    "nllb": (nllb_tokenizer, NllbTokenizer, M2M100Config, M2M100ForConditionalGeneration),
    "mbart": (mbart_tokenizer, MBart50Tokenizer, MBartConfig, MBartForConditionalGeneration),
}
SHAPES = {"m2m": SHAPE, "nllb": SHAPE, "mbart": SHAPE | {"activation_function": "gelu"}}


class Languages:
    """The ids of a directory's tokenizer, as transformers has them."""

    def __init__(self, directory, family, legacy=False):
        options = {"legacy_behaviour": True} if legacy else {}
        self.tokenizer = FAMILIES[family][1].from_pretrained(directory, **options)
        self.codes = CODES[family]

    def source(self, text, language):
        self.tokenizer.src_lang = self.codes[language]
        return self.tokenizer(text)["input_ids"]

    def pieces(self, text):
        return self.tokenizer.tokenize(text)

    def target(self, language):
        token = self.codes[language]
        if isinstance(self.tokenizer, M2M100Tokenizer):
            return self.tokenizer.get_lang_id(token)
        return self.tokenizer.convert_tokens_to_ids(token)

    def ids(self, text):
        return self.tokenizer.convert_tokens_to_ids(self.tokenizer.tokenize(text))

    def names(self, ids):
        return self.tokenizer.convert_ids_to_tokens(ids)


def examples(corpora, languages, rng):
    """(source, target) ids; both begin with their language's token."""
    german, french = corpora
    rows = {("en", "de"): german, ("en", "fr"): french,
            ("de", "en"): [row[::-1] for row in german],
            ("fr", "en"): [row[::-1] for row in french]}
    for source, target in PAIRS:
        for x, y in rng.sample(rows[source, target], 1500):
            yield (languages.source(x, source),
                   [languages.target(target), *languages.ids(y), 2])


def train(model, pairs):
    pairs = [pair for pair in pairs if max(map(len, pair)) <= 24]
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    model.train()
    for step in range(STEPS):
        batch = random.sample(pairs, make_models.BATCH)
        source = make_models.padded([x for x, _ in batch], 1)
        labels = make_models.padded([y for _, y in batch], -100)
        loss = model(input_ids=source, attention_mask=(source != 1).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * min(1, (step + 1) / 50) * (1 - step / STEPS)
        optimizer.step()
        make_models.clear_padding(model)
    model.eval()
    return loss.item()


def make(directory, family, corpora, seed):
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    random.seed(seed)
    torch.manual_seed(seed)
    make_tokenizer, _, kind, model_class = FAMILIES[family]
    size = make_tokenizer(directory, corpora)
    special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = kind(vocab_size=size, dropout=0.0, attention_dropout=0.0, encoder_layerdrop=0.0,
                  decoder_layerdrop=0.0, **special, **SHAPES[family])
    model = model_class(config)
    make_models.randomize(model, 0.15)
    pairs = list(examples(corpora, Languages(directory, family), random.Random(seed)))
    loss = train(model, pairs)
    # transformers' own default of max_length would cut most sentences
    model.generation_config = GenerationConfig(**special, num_beams=4, max_length=62,
                                               forced_eos_token_id=2)
    model = model.to(torch.bfloat16)
    model.config.dtype = torch.bfloat16
    model.save_pretrained(directory)
    print(f"{directory.name}: {model.num_parameters()} parameters, loss {loss:.2f}", flush=True)


def score(model, source, tokens, options):
    """As make_golden.score(); the language's token adds 0, nothing is masked but the end."""
    _, steps = make_golden.log_probs(model, source, [*tokens, 2])
    steps[: options.get("min_length", 0), 2] = -torch.inf
    total = steps[range(1, len(tokens)), tokens[1:]].sum()
    limit = options.get("max_length", 60)
    return float(total if len(tokens) == limit else total + steps[len(tokens), 2])


def hypotheses(model, source, options):
    """[(tokens, S, N)], or None if noise might change anything."""
    found = make_golden.translate(model, source, options)
    for seed in (1, 2):
        again = make_golden.translate(model, source, options, make_golden.Noise(seed))
        if [tokens for tokens, _ in again] != [tokens for tokens, _ in found]:
            return None
    results = []
    for tokens, reported in found:
        total = score(model, source, tokens, options)
        normalized = total / (len(tokens) + 1) ** options.get("length_penalty", 1.0)
        if reported is not None and abs(normalized - reported) > 1e-4:
            raise SystemExit(f"{normalized} computed, {reported} reported: {options}")
        results.append((tokens, total, normalized))
    return results


def golden_sentence(model, languages, text, pair, runs):
    source, first = languages.source(text, pair[0]), languages.target(pair[1])
    model.generation_config.forced_bos_token_id = first
    sentence = {"text": text, "pair": pair, "source": " ".join(languages.pieces(text)),
                "source_ids": source, "runs": {}}
    for name, options in runs.items():
        found = hypotheses(model, source, options)
        if found is None:
            return None
        assert all(tokens[0] == first for tokens, _, _ in found)
        sentence["runs"][name] = [[" ".join(languages.names(tokens)), round(total, 6),
                                   round(normalized, 6)] for tokens, total, normalized in found]
    return sentence


def golden_sentences(model, languages, runs, wanted):
    kept = []
    for i, text in enumerate(make_golden.POOL):
        sentence = golden_sentence(model, languages, text, PAIRS[i % len(PAIRS)], runs)
        kept += [sentence] if sentence else []
        if len(kept) == wanted:
            break
    return kept


def compute(directory, family):
    model = FAMILIES[family][3].from_pretrained(
        directory, dtype=torch.float64, attn_implementation="eager").eval()
    model.generation_config.bad_words_ids = None
    golden = {
        "computed_by": f"transformers {transformers.__version__}, torch float64",
        "runs": RUNS,
        "sentences": golden_sentences(model, Languages(directory, family), RUNS, SENTENCES),
    }
    text = make_golden.layout(golden)
    if family == "nllb":
        few = {name: RUNS[name] for name in ("greedy", "beam")}
        old = golden_sentences(model, Languages(directory, family, legacy=True), few, 6)
        rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in old)
        text = text.rstrip("\n}") + f',\n "legacy": [\n{rows}\n ]\n}}\n'
    (directory / "golden.json").write_text(text, encoding="utf-8")
    print(directory.name, len(golden["sentences"]), "sentences", len(text), "characters")


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    corpora = [make_models.read_corpus(file) for file in sys.argv[1:3]]
    for seed, family in enumerate(FAMILIES):
        directory = MODELS / f"{family}-many"
        if not sys.argv[3:] or directory.name in sys.argv[3:]:
            make(directory, family, corpora, seed)
            compute(directory, family)


if __name__ == "__main__":
    main()
