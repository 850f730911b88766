"""Writes exif.json: pictures with an orientation as phones and editors write them (JPEG, PNG, WebP, TIFF; all eight orientations, both byte orders, with
and without a thumbnail, odd sizes), and files whose EXIF or XMP is odd, damaged or changed at random. For each the CRC-32 of what Pillow's
ImageOps.exif_transpose and convert("RGB") give, and of that squashed to 24 x 16. Where exif_transpose raises, of the picture as it is stored, but as getexif
says where only the writing of the changed EXIF fails.

python make_exif.py   (Pillow 13, numpy)"""
import base64, io, json, os, random, struct, warnings, zlib
import numpy as np
from PIL import Image, ImageOps, __version__

warnings.simplefilter("ignore")
r, g = random.Random(11), np.random.RandomState(11)


def picture(w, h):
    y, x = np.mgrid[0:h, 0:w]
    f = [r.uniform(0.05, 0.3) for _ in range(6)]
    a = np.stack([128 + 60 * np.sin(f[k] * x + f[k + 1] * y) + 60 * np.cos(f[k + 2] * x - f[k + 3] * y * 1.3) for k in range(3)], -1)
    return Image.fromarray(np.clip(a + g.normal(0, 0.6, a.shape), 0, 255).astype(np.uint8))


SIZE = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}


def directory(e, entries, at, following=0):
    """A directory at this place; values of more than 4 bytes stand behind it."""
    head, tail = struct.pack(e + "H", len(entries)), b""
    behind = at + 2 + 12 * len(entries) + 4
    for tag, kind, count, data in entries:
        if len(data) > 4:
            data, tail = struct.pack(e + "L", behind + len(tail)), tail + data + b"\0" * (len(data) % 2)
        head += struct.pack(e + "HHL", tag, kind, count) + data.ljust(4, b"\0")
    return head + struct.pack(e + "L", following) + tail


def values(e, kind, *v):
    form = {1: "B", 3: "H", 4: "L", 5: "L", 6: "b", 7: "B", 8: "h", 9: "l", 10: "l", 11: "f", 12: "d", 13: "L", 16: "Q"}[kind]
    return kind, len(v) // (2 if kind in (5, 10) else 1), struct.pack(e + str(len(v)) + form, *v)


def phone(e, orientation, thumbnail=None):
    """An EXIF block as a phone writes it: make, model, sizes, a directory of its own with notes, GPS, a thumbnail."""
    text = lambda s: (2, len(s) + 1, s.encode() + b"\0")
    def main(sub, gps, following):
        return directory(e, [
            (0x010F, *text("Maker")), (0x0110, *text("Phone 12 Pro")), (0x0112, *values(e, 3, orientation)), (0x011A, *values(e, 5, 72, 1)),
            (0x011B, *values(e, 5, 72, 1)), (0x0128, *values(e, 3, 2)), (0x0131, *text("17.1")), (0x0132, *text("2024:05:01 10:11:12")),
            (0x0213, *values(e, 3, 1)), (0x8769, *values(e, 4, sub)), (0x8825, *values(e, 4, gps))], 8, following)
    n = 8 + len(main(0, 0, 0))
    inner = lambda at: directory(e, [(0x829A, *values(e, 5, 1, 120)), (0x8827, *values(e, 3, 64)), (0x9000, 7, 4, b"0232"), (0x927C, *values(e, 7, *range(40)))], at)
    sub, place = inner(n), lambda at: directory(e, [(1, *text("N")), (2, *values(e, 5, 47, 1, 22, 1, 7, 1)), (3, *text("E")), (4, *values(e, 5, 8, 1, 32, 1, 1, 1))], at)
    gps = place(n + len(sub))
    after = n + len(sub) + len(gps)
    block = main(n, n + len(sub), after if thumbnail else 0) + sub + gps
    if thumbnail:
        small = lambda at: directory(e, [(0x0103, *values(e, 3, 6)), (0x0112, *values(e, 3, 1)), (0x0201, *values(e, 4, at)), (0x0202, *values(e, 4, len(thumbnail)))], after)
        block += small(after + len(small(0))) + thumbnail
    return (b"II*\0" if e == "<" else b"MM\0*") + struct.pack(e + "L", 8) + block


def bare(e, *entries, offset=8, magic=None):
    return (magic or (b"II*\0" if e == "<" else b"MM\0*")) + struct.pack(e + "L", offset) + directory(e, list(entries), 8)


def saved(im, form, **k):
    b = io.BytesIO()
    im.save(b, form, **k)
    return b.getvalue()


def app1(*bodies):
    return b"".join(b"\xff\xe1" + struct.pack(">H", len(x) + 2) + x for x in bodies)


def jpeg(im, *bodies, **k):
    b = saved(im, "JPEG", **{"quality": 80, **k})
    return b[:2] + app1(*bodies) + b[2:]


def chunk(kind, body):
    return struct.pack(">L", len(body)) + kind + body + struct.pack(">L", zlib.crc32(kind + body))


def png(im, *chunks, behind=False):
    b = saved(im, "PNG", optimize=True)
    at = b.index(b"IEND") - 4 if behind else 33
    return b[:at] + b"".join(chunks) + b[at:]


def profile(block, name=b"exif"):
    """ImageMagick's text."""
    h = (b"Exif\0\0" + block).hex()
    return b"\n" + name + b"\n%8d\n" % (len(h) // 2) + b"".join(h[i:i + 72].encode() + b"\n" for i in range(0, len(h), 72))


def xmp(o, element=False):
    o = f"<tiff:Orientation>{o}</tiff:Orientation>" if element else f'<rdf:Description tiff:Orientation="{o}"/>'
    return ('<?xpacket begin=""?><x:xmpmeta xmlns:x="adobe:ns:meta/">' + o + "</x:xmpmeta>").encode()


def riff(b, *chunks, flags):
    """A WebP with its header and more chunks."""
    body, w, h = b[12:], *Image.open(io.BytesIO(b)).size
    head = b"VP8X" + struct.pack("<L", 10) + bytes([flags, 0, 0, 0]) + struct.pack("<L", w - 1)[:3] + struct.pack("<L", h - 1)[:3]
    body = head + body + b"".join(k + struct.pack("<L", len(x)) + x + b"\0" * (len(x) % 2) for k, x in chunks)
    return b"RIFF" + struct.pack("<L", len(body) + 4) + b"WEBP" + body


tXMP = b"http://ns.adobe.com/xap/1.0/\0"
files = []


def add(name, data):
    im = None
    try:
        im = Image.open(io.BytesIO(data))
        im.load()
        im = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
        raised = False
    except Exception:
        raised = True
        if im is None:
            return
        try:
            im = Image.open(io.BytesIO(data))
            im.load()
            try:
                turn = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}.get(im.getexif().get(274, 1))  # Image.Transpose
                im = im if turn is None else im.transpose(turn)
            except Exception:
                pass
            im = im.convert("RGB")
        except Exception:
            return
    files.append({"name": name, "raised": raised, "wh": im.size, "crc": zlib.crc32(im.tobytes()),
                  "squash": zlib.crc32(im.resize((24, 16), Image.BILINEAR).tobytes()), "data": base64.b64encode(zlib.compress(data, 9)).decode()})


# As phones and editors write them.
for w, h in ((29, 17), (7, 24), (12, 33), (21, 20)):
    for o in range(1, 9):
        for e in "<>":
            for small in (False, True):
                im = picture(w, h)
                block = phone(e, o, saved(im.resize((8, 6)), "JPEG", quality=50) if small else None)
                name = f"{w}x{h} {o} {'II' if e == '<' else 'MM'}{' thumbnail' if small else ''}"
                add("JPEG " + name, jpeg(im, b"Exif\0\0" + block, progressive=r.random() < 0.2, subsampling=r.choice([0, 1, 2])))
                add("PNG " + name, png(im if r.random() < 0.7 else im.quantize(16), chunk(b"eXIf", block)))
for o in range(1, 9):
    im, e = picture(23, 14), r.choice("<>")
    block = phone(e, o)
    for kind, c in {"tEXt": chunk(b"tEXt", b"Raw profile type exif\0" + profile(block)), "zTXt": chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile(block))),
                    "iTXt": chunk(b"iTXt", b"Raw profile type exif\0\0\0\0\0" + profile(block)), "iTXt packed": chunk(b"iTXt", b"Raw profile type exif\0\1\0en\0x\0" + zlib.compress(profile(block)))}.items():
        add(f"PNG profile {kind} {o}", png(im, c))
    for kind, c in {"iTXt": chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(o, o % 2)), "zTXt": chunk(b"zTXt", b"XML:com.adobe.xmp\0\0" + zlib.compress(xmp(o))),
                    "tEXt": chunk(b"tEXt", b"XML:com.adobe.xmp\0" + xmp(o)), "iTXt packed": chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(xmp(o)))}.items():
        add(f"PNG XMP {kind} {o}", png(im, c))
    add(f"PNG behind the pixels {o}", png(im, chunk(b"eXIf", block), behind=True))
    add(f"PNG exif text {o}", png(im, chunk(b"tEXt", b"exif\0" + block)))
    add(f"JPEG XMP {o}", jpeg(im, tXMP + xmp(o, o % 2)))
    for lossless in (False, True):
        b = saved(im, "WEBP", lossless=lossless)
        add(f"WebP EXIF {o}", riff(b, (b"EXIF", block), flags=8))
        add(f"WebP EXIF with its name {o}", riff(b, (b"EXIF", b"Exif\0\0" + block), flags=8))
        add(f"WebP XMP {o}", riff(b, (b"XMP ", xmp(o)), flags=4))
        add(f"WebP not announced {o}", riff(b, (b"EXIF", block), (b"XMP ", xmp(o)), flags=0))
    add(f"WebP by Pillow {o}", saved(im, "WEBP", exif=b"Exif\0\0" + block))
    for comp in (None, "tiff_lzw"):
        add(f"TIFF {o}", saved(im, "TIFF", tiffinfo={274: o}, compression=comp))
        add(f"TIFF XMP {o}", saved(im, "TIFF", tiffinfo={700: xmp(o)}, compression=comp))
        add(f"TIFF both {o}", saved(im, "TIFF", tiffinfo={274: o, 700: xmp(9 - o)}, compression=comp))
# Odd ones.
odd = picture(5, 3)
for e in "<>":
    o = lambda kind, *v: (0x0112, *values(e, kind, *v))
    blocks = {f"type {k}": bare(e, o(k, *((6, 1) if k in (5, 10) else (6,)))) for k in (1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16)}
    blocks.update({f"value {v}": bare(e, o(3, v)) for v in (0, 9, 10, 256, 262, 65535)})
    blocks.update({
        "half": bare(e, o(11, 6.5)), "fraction": bare(e, o(5, 12, 2)), "divided by zero": bare(e, o(5, 6, 0)), "negative": bare(e, o(9, -6)), "two values": bare(e, o(3, 6, 3)),
        "three values": bare(e, o(3, 6, 3, 8)), "two long values": bare(e, o(4, 8, 3)), "no value": bare(e, (0x0112, 3, 0, b"\0\6")), "text": bare(e, (0x0112, 2, 2, b"6\0")),
        "unknown type": bare(e, (0x0112, 99, 1, b"\0\6\0\6")), "unknown type, then another": bare(e, (0x0112, 99, 1, b"\0\6\0\6"), o(3, 8)), "twice": bare(e, o(3, 6), o(3, 3)),
        "not in order": bare(e, (0x0128, *values(e, 3, 2)), o(3, 6), (0x010F, 2, 4, b"abc\0")), "odd header": bare(e, o(3, 6), magic=b"II\0*" if e == "<" else b"MM*\0"),
        "BigTIFF": bare(e, o(3, 6), magic=b"II+\0" if e == "<" else b"MM\0+"), "no header": b"hello, world, this is no EXIF", "empty": b"", "cut header": bare(e, o(3, 6))[:6],
        "offset behind the end": bare(e, o(3, 6), offset=99999), "offset 0": bare(e, o(3, 6), offset=0), "text before behind the end": bare(e, (0x010F, 2, 20, struct.pack(e + "L", 70)), o(3, 6)),
        "named twice": b"Exif\0\0" + bare(e, o(3, 6)), "named three times": b"Exif\0\0" * 2 + bare(e, o(3, 6)),
    })
    block = bare(e, (0x010F, 2, 4, b"abc\0"), o(3, 6))
    far = bytearray(block); struct.pack_into(e + "HHL4s", far, 10, 0x010F, 2, 20, struct.pack(e + "L", 1000)); blocks["a text before lies behind the end"] = bytes(far)
    struct.pack_into(e + "HHL4s", far, 10, 0x010F, 2, 2000, struct.pack(e + "L", 8)); blocks["a text before is longer than the file"] = bytes(far)
    for n in range(0, len(block), 3): blocks[f"cut to {n}"] = block[:n]
    for name, b in blocks.items():
        for x in (b"", xmp(8)):
            at = r.random()
            add(f"JPEG {name}{' with XMP' if x else ''}", jpeg(odd, b"Exif\0\0" + b, *([tXMP + x] if x else [])))
            if at < 0.5: add(f"PNG {name}{' with XMP' if x else ''}", png(odd, chunk(b"eXIf", b), *([chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + x)] if x else [])))
            elif b: add(f"WebP {name}{' with XMP' if x else ''}", riff(saved(odd, "WEBP", lossless=True), (b"EXIF", b), *([(b"XMP ", x)] if x else []), flags=12 if x else 8))
    whole = phone(e, 6)
    add("JPEG EXIF in two segments", jpeg(odd, b"Exif\0\0" + whole[:70], b"Exif\0\0" + whole[70:]))
    add("JPEG two EXIF", jpeg(odd, b"Exif\0\0" + whole, b"Exif\0\0" + phone(e, 3)))
    add("JPEG two XMP", jpeg(odd, tXMP + xmp(6), tXMP + xmp(3)))
    b = jpeg(odd); at = b.index(b"\xff\xc0")
    add("JPEG EXIF behind the frame", b[:at + 19] + app1(b"Exif\0\0" + whole) + b[at + 19:])
    add("JPEG bytes between segments", b[:2] + b"\xff\xff\xff" + app1(b"Exif\0\0" + whole)[1:] + b"\0\0" + b[2:])
    two = lambda *c: add("PNG two: " + " ".join(x[4:8].decode() for x in c), png(odd, *c))
    raw = lambda v: chunk(b"tEXt", b"Raw profile type exif\0" + profile(phone(e, v)))
    two(chunk(b"eXIf", phone(e, 6)), raw(3)); two(raw(3), chunk(b"eXIf", phone(e, 6))); two(raw(3), raw(8)); two(chunk(b"eXIf", phone(e, 6)), chunk(b"eXIf", phone(e, 8)))
    two(chunk(b"tEXt", b"exif\0" + phone(e, 5)), chunk(b"eXIf", phone(e, 6))); two(chunk(b"eXIf", phone(e, 6)), chunk(b"tEXt", b"exif\0" + phone(e, 5)))
    two(chunk(b"eXIf", phone(e, 6)), chunk(b"zTXt", b"exif\0\0" + zlib.compress(phone(e, 5))))
    add("PNG profile of another name", png(odd, chunk(b"tEXt", b"Raw profile type exif\0" + profile(whole, b"generic"))))
    add("PNG profile APP1", png(odd, chunk(b"tEXt", b"Raw profile type APP1\0" + profile(whole))))
    for n in (0, 5, 20, 21, 60, 61, 200): add(f"PNG profile cut to {n}", png(odd, chunk(b"tEXt", b"Raw profile type exif\0" + profile(whole)[:n])))
    add("PNG profile no digits", png(odd, chunk(b"tEXt", b"Raw profile type exif\0\nexif\n  4\nxyzw\n")))
    z = zlib.compress(profile(whole))
    for n in (0, 1, 2, 10, len(z) - 1): add(f"PNG packed profile cut to {n}", png(odd, chunk(b"zTXt", b"Raw profile type exif\0\0" + z[:n])))
    add("PNG packed profile damaged", png(odd, chunk(b"zTXt", b"Raw profile type exif\0\0" + z[:20] + b"\xff\xff\xff" + z[23:])))
for t in ('tiff:Orientation="6"', "tiff:Orientation='6'", "tiff:Orientation>6<", 'tiff:Orientation = "6"', 'tiff:Orientation="0"', 'tiff:Orientation="9"', 'tiff:Orientation="62"', 'tiff:Orientation=""  tiff:Orientation="6"',
          'TIFF:Orientation="6"', 'tiff:Orientation="x" tiff:Orientation>5', 'tiff:Orientation>3 tiff:Orientation="6"', 'exif:Orientation="6"', 'tiff:Orientation', ""):
    add(f"JPEG XMP {t}", jpeg(odd, tXMP + t.encode()))
    add(f"PNG XMP {t}", png(odd, chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + t.encode())))
    add(f"PNG XMP no UTF-8 {t}", png(odd, chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0\xff" + t.encode())))
    add(f"PNG two XMP {t}", png(odd, chunk(b"tEXt", b"XML:com.adobe.xmp\0" + t.encode()), chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0\xff" + xmp(8))))
    add(f"TIFF XMP {t}", saved(odd, "TIFF", tiffinfo={700: t.encode()}))
# Changed at random.
for i in range(250):
    block = bytearray(r.choice([phone(r.choice("<>"), r.randint(1, 8)), bare(r.choice("<>"), (0x010F, 2, 4, b"abc\0"), (0x0112, *values("<", 3, 6)))]))
    for _ in range(r.choice([1, 1, 2, 4])):
        block[r.randrange(min(len(block), r.choice([8, 40, 200])))] = r.choice([0, 1, 2, 3, 6, 8, 0x12, 255, r.randrange(256)])
    x = [tXMP + xmp(7)] if r.random() < 0.3 else []
    add(f"changed {i}", jpeg(odd, b"Exif\0\0" + bytes(block), *x) if r.random() < 0.5 else png(odd, chunk(b"eXIf", bytes(block))))

about = f"Pillow {__version__}; data is deflated, base64; wh, crc and squash (24 x 16, bilinear) are of exif_transpose, or of the picture as stored where that raises"
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "exif.json"), "w") as f:
    f.write('{"about": ' + json.dumps(about) + ', "files": [\n' + ",\n".join(json.dumps(x) for x in files) + "\n]}\n")
print(len(files), "files,", sum(x["raised"] for x in files), "where Pillow raises")
