"""Photos and awkward files of the drawn pictures, and what Pillow 13.0.0 reads of them: `go run draw.go && python make.py && rm -r drawn` in this folder
writes photos/, awkward/ and pillow.json."""
import io, json, pathlib, zlib

from PIL import Image, ImageOps, __version__

here = pathlib.Path(__file__).parent
out = here / "awkward"
out.mkdir(exist_ok=True)
(here / "photos" / "images").mkdir(exist_ok=True)
for path in sorted((here / "drawn").glob("*.png")):
    Image.open(path).convert("RGB").save(here / "photos" / "images" / f"{path.stem}.jpg", quality=85)
pictures = [Image.open(here / "drawn" / f"{i:02d}.png").convert("RGB").resize((32, 32)) for i in range(12)]


def saved(image, form, **options):
    b = io.BytesIO()
    image.save(b, form, **options)
    return b.getvalue()


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e


transparent = pictures[3].convert("RGBA")
transparent.putalpha(Image.linear_gradient("L").resize(transparent.size))
wide = pictures[4].crop((0, 0, 31, 20))
files = {
    "plain.jpg": saved(pictures[0], "JPEG", quality=90),
    "progressive.jpg": saved(pictures[1], "JPEG", quality=80, progressive=True),
    "gray.jpg": saved(pictures[2].convert("L"), "JPEG"),
    "cmyk.jpg": saved(pictures[2].convert("CMYK"), "JPEG"),
    **{f"turned{o}.jpg": saved(wide, "JPEG", subsampling=0, exif=exif(o)) for o in (3, 6, 7)},
    "gray.png": saved(pictures[5].convert("L"), "PNG"),
    "bits16.png": saved(Image.frombytes("I;16", (16, 16), bytes(range(256)) * 2), "PNG"),
    "palette.png": saved(pictures[6].quantize(16), "PNG"),
    "palette-transparent.png": saved(pictures[6].quantize(16), "PNG", transparency=3),
    "alpha.png": saved(transparent, "PNG"),
    "bilevel.png": saved(pictures[7].convert("1"), "PNG"),
    "moving.gif": saved(pictures[8].quantize(32), "GIF", save_all=True, append_images=[pictures[9].quantize(32)]),
    "plain.webp": saved(pictures[10], "WEBP", lossless=True),
    "plain.bmp": saved(pictures[11].resize((24, 24)), "BMP"),
    "one-pixel.png": saved(pictures[0].resize((1, 1)), "PNG"),
    "strip.png": saved(pictures[0].resize((300, 1)), "PNG"),
    "png-called.jpg": saved(pictures[1].resize((20, 20)), "PNG"),
}
jpeg = files["plain.jpg"]
files |= {
    "empty.jpg": b"",
    "text.jpg": b"this is not an image\n",
    "cut-in-header.jpg": jpeg[:100],
    "cut-in-scan.jpg": jpeg[: len(jpeg) * 2 // 3],
    "cut.png": files["gray.png"][:-40],
}
facts = {}
for name, b in files.items():
    (out / name).write_bytes(b)
    try:
        with Image.open(io.BytesIO(b)) as image:
            mode = image.mode
            rgb = image.convert("RGB")
            turned = ImageOps.exif_transpose(image).convert("RGB")
        facts[name] = {"mode": mode, "wh": list(rgb.size), "rgb": zlib.crc32(rgb.tobytes()), "turned_wh": list(turned.size), "turned": zlib.crc32(turned.tobytes())}
    except Exception as e:  # whatever Pillow raises, the file cannot be read
        facts[name] = {"error": type(e).__name__}
(here / "pillow.json").write_text(json.dumps({"pillow": __version__, "files": facts}, indent=1) + "\n")
