"""Writes tokenizer.json: texts and their ids from OpenAI's tokenizer as open_clip 3.3.0 carries it (with OpenAI's special literals), ftfy 6.3.1.
Run:  python make_tokenizer.py NAMES…     (files with a class name a line)"""
import json, random, sys, unicodedata
import ftfy, regex
from open_clip.tokenizer import SimpleTokenizer

t = SimpleTokenizer()
for new, old in (("<|startoftext|>", "<start_of_text>"), ("<|endoftext|>", "<end_of_text>")):
    t.encoder[new] = t.encoder.pop(old)
t.cache = {k: k for k in ("<|startoftext|>", "<|endoftext|>")}
t.pat = regex.compile(r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+""", regex.IGNORECASE)

r = random.Random(7)
names = [l.split(":")[-1].strip() for f in sys.argv[1:] for l in open(f) if l.strip()]
words = [w for n in names for w in n.split()]
alphabets = ["abcdefghijklmnopqrstuvwxyz ", "ABCDEFG hijk", "0123456789.,- ", "!?'\"<>|&;#@ ", "äöüßéèçñøåæœ ŒÂÃ", "αβγδΣσςΩ ΑΒΓ", "абвгдежзЁЯ ", "漢字かなカナ 한글",
             "٠١٢سلام ", "שלום ", "😀👍🏽👩‍👩‍👧🇺🇸❤️ ", "ﬁﬂﬀﬃĲŉǆ ", "ＡＢｃ１２！　ｶﾞ", "\u0300\u0301\u0327e a", "‘’‚‛“”„‟ʼ'", "²³½¼ⅧⅨ①", "\t\n\r\x0b\x0c\x1c\x85\u2028\xa0\u200b\u2003x ", "İıſKÅΣ.'"]
entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&copy;", "&copy", "&eacute;", "&EACUTE;", "&#233;", "&#xE9;", "&#x80;", "&#0;", "&#11;", "&amp;amp;", "&nbsp;", "&notit;", "&hellip;", "&AMP", "&semi;", "&bogus;",
            "&NTILDE;", "&#xD800;", "&#99999999;", "&#x1F600;", "&lt", "&frac12;"]
mojibake = ["é", "à la", "naïve façade", "“quoted” text", "it’s", "– dash", "über größe", "señor", "café ☕", "привет", "日本", "€5", "© 2024", "x² ± 3", "Ελλάδα", "žluťoučký", "😀", "…", "•"]
texts = []
for _ in range(140):
    texts.append(" ".join(r.choice(words) for _ in range(r.randint(1, 9))))
for _ in range(40):
    texts.append(f"A photo of {r.choice(['a', 'the', 'many'])} {r.choice(names)}{r.choice(['.', '!', '', ' 12', chr(39) + 's'])}")
for _ in range(260):
    a = [r.choice(alphabets) for _ in range(r.randint(1, 3))]
    texts.append("".join(r.choice(r.choice(a)) for _ in range(r.randint(1, 24))))
for _ in range(120):
    texts.append(" ".join(r.choice([r.choice(words), r.choice(entities), r.choice(words) + r.choice(entities)]) for _ in range(r.randint(1, 5))))
for m in mojibake:
    for enc in ("latin-1", "windows-1252", "windows-1251", "windows-1250", "windows-1253", "macroman", "cp437"):
        try:
            bad = m.encode().decode(enc)
        except UnicodeDecodeError:
            continue
        texts += [bad, f"{r.choice(words)} {bad} {r.choice(words)}"]
for _ in range(60):
    texts.append("".join(chr(r.choice([r.randint(32, 0x2ff), r.randint(0x370, 0x1fff), r.randint(0x2000, 0x2bff), r.randint(0x3000, 0xd7ff)])) for _ in range(r.randint(1, 8))))
texts += ["<|startoftext|>x<|endoftext|>", "!<|endoftext|>", "<start_of_text>", "<|ENDOFTEXT|>", "a" * 5000, "xyz " * 50, "\x1b[31mred\x1b[0m", "<b>&amp;</b>\n&amp;", "we'Re 'S 'ſ ''s", "", " "]
assigned = lambda s: all(unicodedata.category(c) not in ("Cn", "Cs") for c in s)  # the tables of later Unicode versions know more
cases = [{"text": x, "ids": [t.sot_token_id] + t.encode(x) + [t.eot_token_id]} for x in dict.fromkeys(texts) if assigned(x)]
json.dump({"about": {"ftfy": ftfy.__version__, "open_clip": "3.3.0"}, "cases": cases}, open("tokenizer.json", "w"), separators=(",", ":"))
print(len(cases))
