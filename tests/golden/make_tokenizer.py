"""Makes tests/golden/tokenizer: a small OPUS-MT-like tokenizer and what the Python packages
sentencepiece and transformers.MarianTokenizer (without sacremoses) do with it.

    python tests/golden/make_tokenizer.py

sentences.tsv (English, German) is a sample of Tatoeba, https://tatoeba.org, CC BY 2.0 FR; the two
SentencePiece models are trained on it. cases.json has the expected pieces, ids and texts.
"""
import json
import os
import random
import warnings

import sentencepiece
from transformers import MarianTokenizer

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer")

TEXTS = [
    "Hello, world!",
    "The weather is nice today.",
    "  Two  leading spaces,\tand a tab.  ",
    "It costs 3.50 € (about $4) – really?",
    "Ｆｕｌｌｗｉｄｔｈ ﬁgures ½ and ﬃ ligatures",
    "café cafe\u0301 naïve Ångström",
    "日本語のテキスト",
    "an emoji 😀 and a family 👨‍👩‍👧",
    "no\u00a0break\u3000space\u200bzero",
    ">>de<< With a language code.",
    ">>de<<Without a space",
    "a >>de<< code inside",
    "x << y >> z",
    "▁▁ underlines ▁",
    "UPPER lower MiXeD",
    "Straße, Füße, Äpfel und Öl",
    "http://example.org/a?b=c&d=%20",
    "tabs\tand\nnewlines\r\n",
    "…",
    "?",
    "",
    " ",
    "a" * 200,
    "The house. " * 20,
    "\u0001control\u007f",
    "قط Кошка γάτα",
]


def train(name, sentences, size):
    with open(os.path.join(HERE, name + ".spm"), "wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences), model_writer=out, vocab_size=size,
            character_coverage=1.0, model_type="unigram", hard_vocab_limit=False,
            bos_id=-1, eos_id=0, unk_id=1, pad_id=-1, num_threads=1, minloglevel=2)


def write_vocab():
    pieces = set()
    for name in ("source", "target"):
        model = sentencepiece.SentencePieceProcessor(model_file=os.path.join(HERE, name + ".spm"))
        pieces |= {model.id_to_piece(i) for i in range(model.get_piece_size())}
    ordered = ["</s>", "<unk>"] + sorted(pieces - {"</s>", "<unk>"}) + [">>de<<", "<pad>"]
    with open(os.path.join(HERE, "vocab.json"), "w", encoding="utf-8") as out:
        json.dump({piece: i for i, piece in enumerate(ordered)}, out, ensure_ascii=False, indent=0)
        out.write("\n")
    return len(ordered)


def cases(tokenizer, texts, n_ids):
    encoded = []
    for text in texts:
        pieces = tokenizer.tokenize(text)
        encoded.append({"text": text, "pieces": pieces,
                        "ids": tokenizer.convert_tokens_to_ids(pieces)})
    rng = random.Random(1)
    lists = [case["ids"] for case in encoded]
    lists += [[rng.randrange(n_ids) for _ in range(rng.randrange(1, 30))] for _ in range(100)]
    decoded = [{"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True,
                                                     use_source_tokenizer=False)}
               for ids in lists]
    return {"vocab_size": n_ids, "encode": encoded, "decode": decoded}


def main():
    warnings.filterwarnings("ignore")
    with open(os.path.join(HERE, "sentences.tsv"), encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split("\t") for line in lines]
    train("source", [pair[0] for pair in pairs], 500)
    train("target", [pair[1] for pair in pairs], 500)
    n_ids = write_vocab()
    with open(os.path.join(HERE, "tokenizer_config.json"), "w", encoding="utf-8") as out:
        json.dump({"source_lang": "en", "target_lang": "de",
                   "tokenizer_class": "MarianTokenizer"}, out)
        out.write("\n")
    tokenizer = MarianTokenizer.from_pretrained(HERE)
    texts = TEXTS + [text for pair in pairs[::8] for text in pair]
    with open(os.path.join(HERE, "cases.json"), "w", encoding="utf-8") as out:
        json.dump(cases(tokenizer, texts, n_ids), out, ensure_ascii=False, indent=0)
        out.write("\n")


if __name__ == "__main__":
    main()
