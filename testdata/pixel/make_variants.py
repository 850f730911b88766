"""Writes variants.json: small files of every kind that Pillow writes or reads, and some made by hand (BMP headers and masks, run lengths, PNG depths and interlacing, JPEG
colour markers, GIF canvases), with the CRC-32 of what Pillow's convert("RGB") gives; null where Pillow refuses the file. TIFF tiles, planes and byte orders come from tifffile.

python make_variants.py   (Pillow 13, numpy, tifffile, imagecodecs)"""
import base64, glob, io, json, os, random, struct, tempfile, warnings, zlib
import numpy as np
import tifffile
from PIL import Image, __version__

warnings.simplefilter("ignore")
seed = 3
out = tempfile.mkdtemp()
r = random.Random(seed)
g = np.random.RandomState(seed)


def pic(w,h,c=3):
    # smooth + noise
    y,x=np.mgrid[0:h,0:w]
    a=np.zeros((h,w,c))
    for k in range(c):
        f=[r.uniform(0,.3) for _ in range(4)]
        a[...,k]=128+60*np.sin(f[0]*x+f[1]*y)+60*np.cos(f[2]*x-f[3]*y*1.3)
    a+=g.normal(0,r.choice([0,5,30]),a.shape)
    return np.clip(a,0,255).astype(np.uint8)
n=0
def save(im,ext,tag,**k):
    global n
    p=f'{out}/{seed}_{n:03d}_{tag}.{ext}'; n+=1
    try: im.save(p,**k)
    except Exception:
        if os.path.exists(p): os.remove(p)
def size():
    return r.choice([(1, 1), (1, r.randint(2, 19)), (r.randint(2, 19), 1), (r.randint(2, 19), r.randint(2, 19)), (17, 16), (16, 17)])


def mk(mode):
    w,h=size()
    if mode=='1': return Image.fromarray(pic(w,h,1)[...,0]).convert('1')
    if mode=='L': return Image.fromarray(pic(w,h,1)[...,0])
    if mode=='LA': return Image.fromarray(pic(w,h,2),'LA')
    if mode=='P':
        return Image.fromarray(pic(w,h)).quantize(r.choice([2,3,5,16,17,64,200,256]))
    if mode=='PA': return Image.fromarray(pic(w,h,4),'RGBA').convert('PA')
    if mode=='RGB': return Image.fromarray(pic(w,h))
    if mode=='RGBA': return Image.fromarray(pic(w,h,4),'RGBA')
    if mode=='CMYK': return Image.fromarray(pic(w,h,4),'CMYK')
    if mode=='YCbCr': return Image.fromarray(pic(w,h,3),'YCbCr')
    if mode=='LAB': return Image.fromarray(pic(w,h,3),'LAB')
    if mode=='HSV': return Image.fromarray(pic(w,h,3),'HSV')
    if mode=='I;16': return Image.fromarray((pic(w,h,1)[...,0].astype(np.uint16)*257//r.choice([1,3,257])))
    if mode=='I': return Image.fromarray(pic(w,h,1)[...,0].astype(np.int32)*r.choice([1,3,200]))
    if mode=='F': return Image.fromarray(pic(w,h,1)[...,0].astype(np.float32)*1.3)
def modes(ext,tag,ms,reps,**k):
    for m in ms:
        for i in range(reps):
            kk={a:(v() if callable(v) else v) for a,v in k.items()}
            save(mk(m),ext,f'{tag}_{m.replace(";","")}',**kk)
# PNG
modes('png','png',['1','L','LA','P','RGB','RGBA','I;16','I'],3,optimize=lambda:r.random()<.5)
for i in range(4):
    save(mk('P'),'png','trnsP',transparency=r.randint(0,1)); save(mk('P'),'png','trnsPb',transparency=bytes([0,100,255]))
    save(mk('RGB'),'png','trnsRGB',transparency=(10,20,30)); save(mk('L'),'png','trnsL',transparency=100)
    save(mk('P'),'png','bits',bits=8)
save(mk('1'),'png','trns1',transparency=0)
# APNG
for i in range(2):
    a=[mk('RGB') for _ in range(1)]; b=a[0].rotate(90); save(a[0],'png','apng',save_all=True,append_images=[a[0].transpose(0)],default_image=bool(i))
# raw PNGs with depth/interlace
def chunk(k,b): return struct.pack('>I',len(b))+k+b+struct.pack('>I',zlib.crc32(k+b))
def rawpng(w,h,depth,color,interlace,plte=None,trns=None):
    ch={0:1,2:3,3:1,4:2,6:4}[color]
    def passdata(pw,ph):
        if pw<=0 or ph<=0: return b''
        n=(pw*depth*ch+7)//8; o=b''
        for y in range(ph):
            o+=bytes([r.choice([0,1,2,3,4])])+bytes(g.randint(0,256,n).astype(np.uint8))
        return o
    if not interlace: d=passdata(w,h)
    else: d=b''.join(passdata((w-x0+dx-1)//dx,(h-y0+dy-1)//dy) for x0,y0,dx,dy in ((0,0,8,8),(4,0,8,8),(0,4,4,8),(2,0,4,4),(0,2,2,4),(1,0,2,2),(0,1,1,2)))
    b=b'\x89PNG\r\n\x1a\n'+chunk(b'IHDR',struct.pack('>IIBBBBB',w,h,depth,color,0,0,interlace))
    if plte: b+=chunk(b'PLTE',plte)
    if trns: b+=chunk(b'tRNS',trns)
    z=zlib.compress(d); k=r.randint(1,len(z))
    b+=chunk(b'IDAT',z[:k])+chunk(b'IDAT',b'')+chunk(b'IDAT',z[k:])+chunk(b'IEND',b'')
    return b
def rawsave(b,ext,tag):
    global n
    open(f'{out}/{seed}_{n:03d}_{tag}.{ext}','wb').write(b); n+=1
for color,depths in ((0,(1,2,4,8,16)),(2,(8,16)),(3,(1,2,4,8)),(4,(8,16)),(6,(8,16))):
    for d in depths:
        for il in (0,1):
            w,h=r.choice([(1,1),(5,7),(33,9),(8,8),(9,1),(1,9)])
            pl=bytes(g.randint(0,256,3*min(256,2**d)).astype(np.uint8)) if color==3 else None
            rawsave(rawpng(w,h,d,color,il,pl),'png',f'raw_c{color}d{d}i{il}')
            if color in(0,2,3):
                tr={0:struct.pack('>H',r.randint(0,2**d-1)),2:struct.pack('>HHH',1,2,3),3:bytes(g.randint(0,256,r.randint(1,2**d)).astype(np.uint8)) }[color]
                rawsave(rawpng(w,h,d,color,il,pl,tr),'png',f'raw_c{color}d{d}i{il}trns')
# short palette
rawsave(rawpng(20,20,8,3,0,bytes(g.randint(0,256,3*100).astype(np.uint8))),'png','shortplte')
rawsave(rawpng(20,20,4,3,0,bytes(g.randint(0,256,3*5).astype(np.uint8))),'png','shortplte4')
# JPEG
for q in range(12):
    save(mk('RGB'),'jpg','jpg',quality=r.randint(1,100),subsampling=r.choice([0,1,2]),progressive=r.random()<.5,optimize=r.random()<.5)
for s in ('4:4:4','4:2:2','4:2:0'):
    save(mk('RGB'),'jpg','sub',subsampling=s,quality=80); save(mk('RGB'),'jpg','subp',subsampling=s,quality=80,progressive=True, restart_marker_blocks=2)
modes('jpg','jpg',['L','CMYK','YCbCr','1'],3,quality=lambda:r.randint(10,98))
for i in range(3): save(mk('RGB'),'jpg','keeprgb',keep_rgb=True,quality=90)
for o in range(1,9):
    e=Image.Exif(); e[274]=o; save(mk('RGB'),'jpg',f'exif{o}',exif=e)
# restart markers, comment
save(mk('RGB'),'jpg','rst',restart_marker_rows=1); save(mk('RGB'),'jpg','com',comment=b'hello')
# JPEG with adobe marker stripped or altered
def jmod(b,kill=(),adobe=None):
    i=2;o=b[:2]
    while i<len(b):
        m=b[i+1]
        if m==0xda: return o+b[i:]
        L=struct.unpack('>H',b[i+2:i+4])[0]; seg=b[i:i+2+L]
        if m==0xee and adobe is not None: seg=seg[:-1]+bytes([adobe])
        if m not in kill: o+=seg
        i+=2+L
    return o
for m in ('RGB','CMYK','RGB','CMYK'):
    f=io.BytesIO(); mk(m).save(f,'JPEG',quality=85); b=f.getvalue()
    rawsave(jmod(b,kill=(0xee,)),'jpg',f'noadobe_{m}'); rawsave(jmod(b,kill=(0xe0,)),'jpg',f'nojfif_{m}')
    for a in (0,1,2): rawsave(jmod(b,adobe=a),'jpg',f'adobe{a}_{m}')
    rawsave(b+b'trailing junk'*10,'jpg','trail')
f=io.BytesIO(); mk('RGB').save(f,'JPEG',quality=85); b=f.getvalue()
ad=b'\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00'
for t in (0,1,2): rawsave(b[:2]+ad+bytes([t])+b[2:],'jpg',f'adobe_ins{t}'); rawsave(jmod(b[:2]+ad+bytes([t])+b[2:],kill=(0xe0,)),'jpg',f'adobe_ins{t}_nojfif')
# component ids RGB
def compids(b,ids):
    i=b.index(b'\xff\xc0'); b=bytearray(b)
    for k,c in enumerate(ids): b[i+10+3*k]=c
    j=b.index(b'\xff\xda')
    for k,c in enumerate(ids): b[j+5+2*k]=c
    return bytes(b)
f=io.BytesIO(); mk('RGB').save(f,'JPEG',quality=85); b=f.getvalue()
for ids in (b'RGB',b'\x00\x01\x02',b'YCC',b'\x01\x22\x23'): rawsave(jmod(compids(b,ids),kill=(0xe0,)),'jpg','ids_'+ids.hex()); rawsave(compids(b,ids),'jpg','idsj_'+ids.hex())
# GIF
for i in range(6): save(mk('P'),'gif','gif',interlace=i%2)
for m in ('L','1','RGB','RGBA'): save(mk(m),'gif','gif_'+m)
for i in range(3): save(mk('P'),'gif','giftr',transparency=r.randint(0,3))
for d in range(4):
    w,h=12,9; fr=[Image.fromarray(pic(w,h)) for _ in range(3)]
    save(fr[0],'gif',f'gifanim{d}',save_all=True,append_images=fr[1:],disposal=d,duration=50,loop=0)
    fr=[Image.fromarray(pic(w,h,4),'RGBA') for _ in range(3)]
    save(fr[0],'gif',f'gifanimA{d}',save_all=True,append_images=fr[1:],disposal=d,duration=50)
def rawgif(cw,ch,x,y,w,h,pal,bg,tr=None,local=None,ver=b'GIF89a'):
    base=io.BytesIO(); im=Image.fromarray(g.randint(0,4,(h,w)).astype(np.uint8),'P'); im.putpalette([1]*12); im.save(base,'GIF',optimize=False); b=base.getvalue()
    k=b.index(b',',13+3*4); img=b[k:]
    fl=img[9]; img0=img[10:]
    if fl&0x80: img0=img0[3*2**((fl&7)+1):]
    d=struct.pack('<HHHH',x,y,w,h)
    o=ver+struct.pack('<HH',cw,ch)+bytes([(0x80|1) if pal else 0x01,bg,0])+(pal or b'')
    if tr is not None: o+=b'!\xf9\x04\x01\0\0'+bytes([tr])+b'\0'
    o+=b','+d+bytes([0x80|1 if local else 0])+(local or b'')+img0
    return o
P4=bytes(g.randint(0,256,12).astype(np.uint8)); Q4=bytes(g.randint(0,256,12).astype(np.uint8))
for i,(cw,ch,x,y,w,h) in enumerate([(20,20,3,4,10,10),(20,20,0,0,20,20),(10,10,5,5,10,10),(0,0,0,0,7,7)]):
    for bg in (0,2):
        for tr in (None,1):
            for pal,loc in ((P4,None),(P4,Q4),(None,Q4),(None,None)):
                try: rawsave(rawgif(cw,ch,x,y,w,h,pal,bg,tr,loc),'gif',f'rawgif{i}_{bg}_{tr}_{pal is not None}_{loc is not None}')
                except Exception: pass
# BMP
modes('bmp','bmp',['1','L','P','RGB','RGBA'],3)
def rawbmp(bits,comp,w,h,top=False,hdr=40,masks=None,data=None,pal=None,colors=0,rng=g):
    row=(w*bits+31)//32*4
    if data is None: data=bytes(rng.randint(0,256,row*abs(h)).astype(np.uint8))
    if pal is None: pal=bytes(rng.randint(0,256,4*(colors or 2**bits)).astype(np.uint8)) if bits<=8 else b''
    if hdr==12:
        pal=b''.join(pal[4*i:4*i+3] for i in range(len(pal)//4)); H=struct.pack('<IHHHH',12,w,h,1,bits); extra=b''
    else:
        H=struct.pack('<IiiHHIIiiII',hdr,w,-h if top else h,1,bits,comp,len(data),2835,2835,colors,0)
        m=struct.pack('<'+'I'*len(masks),*masks) if masks else b''
        if hdr>40: H+=(m+bytes(hdr))[:hdr-40]; extra=b''
        else: extra=m
    off=14+len(H)+len(extra)+len(pal)
    return b'BM'+struct.pack('<IHHI',off+len(data),0,0,off)+H+extra+pal+data
for w,h in ((1,1),(7,5),(33,10)):
    for top in (0,1):
        for bits in (1,4,8,16,24,32):
            rawsave(rawbmp(bits,0,w,h,top),'bmp',f'rawbmp{bits}_{top}')
            rawsave(rawbmp(bits,0,w,h,top,hdr=124 if bits>8 else 108),'bmp',f'rawbmp{bits}_{top}v5')
    for bits in (1,4,8,24): rawsave(rawbmp(bits,0,w,h,hdr=12),'bmp',f'os2_{bits}')
    for bits in (4,8): rawsave(rawbmp(bits,0,w,h,colors=5),'bmp',f'fewcolors{bits}')
    for hdr in (40,52,56,108,124):
        rawsave(rawbmp(16,3,w,h,hdr=hdr,masks=(0xf800,0x7e0,0x1f)),'bmp',f'bf565_{hdr}')
        rawsave(rawbmp(16,3,w,h,hdr=hdr,masks=(0x7c00,0x3e0,0x1f)),'bmp',f'bf555_{hdr}')
        rawsave(rawbmp(32,3,w,h,hdr=hdr,masks=(0xff0000,0xff00,0xff)),'bmp',f'bf888_{hdr}')
        rawsave(rawbmp(32,3,w,h,hdr=hdr,masks=(0xff000000,0xff0000,0xff00)),'bmp',f'bfx888_{hdr}')
        rawsave(rawbmp(32,3,w,h,hdr=hdr,masks=(0xff,0xff00,0xff0000)),'bmp',f'bfbgr_{hdr}')
        rawsave(rawbmp(32,3,w,h,hdr=hdr,masks=(0xff0000,0xff00,0xff,0xff000000)),'bmp',f'bfa888_{hdr}')
        rawsave(rawbmp(24,3,w,h,hdr=hdr,masks=(0xff0000,0xff00,0xff)),'bmp',f'bf24_{hdr}')
def rle8(w,h):
    d=b''
    for y in range(h):
        x=0
        while x<w:
            k=r.randint(1,min(20,w-x))
            if k>=3 and r.random()<.4:
                v=bytes(g.randint(0,256,k).astype(np.uint8)); d+=bytes([0,k])+v+(b'\0' if k%2 else b'')
            else: d+=bytes([k,r.randint(0,255)])
            x+=k
            if x<w and r.random()<.1:
                dx=r.randint(0,w-x); d+=bytes([0,2,dx,0]); x+=dx
        d+=b'\0\0'
    return d+b'\0\1'
def rle4(w,h):
    d=b''
    for y in range(h):
        x=0
        while x<w:
            k=r.randint(1,min(20,w-x))
            if k>=3 and r.random()<.4:
                nb=(k+1)//2; v=bytes(g.randint(0,256,nb).astype(np.uint8)); d+=bytes([0,k])+v+(b'\0' if nb%2 else b'')
            else: d+=bytes([k,r.randint(0,255)])
            x+=k
        d+=b'\0\0'
    return d+b'\0\1'
for w,h in ((7,5),(33,10),(64,20)):
    rawsave(rawbmp(8,1,w,h,data=rle8(w,h)),'bmp','rle8'); rawsave(rawbmp(4,2,w,h,data=rle4(w,h)),'bmp','rle4')
# TIFF
for c in (None,'tiff_lzw','tiff_adobe_deflate','tiff_deflate','packbits','jpeg','raw'):
    modes('tif','tif_'+str(c),['L','RGB','RGBA','P','CMYK','LA'],1,compression=c)
modes('tif','tif16',['I;16','I','F','1','I;16'],2)
for c in ('group3','group4','packbits','tiff_lzw'): save(mk('1'),'tif','tif1_'+c,compression=c); save(mk('1'),'tif','tif1_'+c,compression=c)
for c in (None,'tiff_lzw','tiff_adobe_deflate'):
    for m in ('L','RGB','I;16'):
        save(mk(m),'tif',f'tifpred_{c}_{m}'.replace(';',''),compression=c,tiffinfo={317:2})
        save(mk(m),'tif',f'tifrows_{c}_{m}'.replace(';',''),compression=c,tiffinfo={278:3})
save(mk('RGB'),'tif','tifbig',big_tiff=True)
for o in (3,6): save(mk('RGB'),'tif',f'tiforient{o}',tiffinfo={274:o})
a=[mk('RGB') for _ in range(3)]; save(a[0],'tif','multi',save_all=True,append_images=a[1:])
# WEBP
modes('webp','webp',['RGB','RGBA','L','P'],3,quality=lambda:r.randint(1,100),method=lambda:r.randint(0,6))
modes('webp','webpll',['RGB','RGBA','L','P'],3,lossless=True,exact=True,method=lambda:r.randint(0,6))
modes('webp','webpll2',['RGBA'],3,lossless=True)
for i in range(4):
    fr=[Image.fromarray(pic(12,9,4 if i%2 else 3)) for _ in range(3)]
    save(fr[0],'webp',f'webpanim{i}',save_all=True,append_images=fr[1:],lossless=i>1,duration=50)
save(mk('RGB'),'webp','webpexif',exif=b'Exif\0\0II*\0\x08\0\0\0\0\0')
def tif(a,tag,**k):
    global n
    try: tifffile.imwrite(f'{out}/{seed}_{n:03d}_tifffile_{tag}.tif',a,**k); n+=1
    except Exception: pass
for comp in (None,'lzw','zlib','packbits','jpeg'):
  for be in '<>':
    for tile in (None,(16,32)):
      for big in (be == '<' and comp == 'lzw',):
        H,W=r.choice([(7,9),(17,20),(5,33)])
        base=np.clip(np.add.outer(np.arange(H)*2,np.arange(W))%256+g.normal(0,8,(H,W)),0,255).astype(np.uint8)
        rgb=np.stack([base,base[::-1],base[:,::-1]],-1)
        kw=dict(compression=comp,byteorder=be,tile=tile,bigtiff=big)
        if tile is None: kw['rowsperstrip']=r.choice([1,7,16,H])
        if comp=='jpeg' and tile is None: kw['rowsperstrip']=16
        pr=r.choice([None,True]) if comp in('lzw','zlib') else None
        tif(base,'L',photometric='minisblack',predictor=pr,**kw)
        tif(rgb,'RGB',photometric='rgb',predictor=pr,**kw)
        if comp=='jpeg':
            kw2=dict(kw); tif(rgb,'YCC',photometric='ycbcr',**kw2); tif(rgb,'YCC22',photometric='ycbcr',subsampling=(2,2),**kw2); continue
        tif(base,'Linv',photometric='miniswhite',**kw)
        tif(np.moveaxis(rgb,-1,0),'RGBplanar',photometric='rgb',planarconfig='separate',predictor=pr,**kw)
        tif(np.dstack([rgb,base]),'RGBA',photometric='rgb',extrasamples=[r.choice(['unassalpha','assocalpha','unspecified'])],predictor=pr,**kw)
        tif(np.dstack([rgb,base]),'CMYK',photometric='separated',**kw)
        tif(rgb.astype(np.uint16)*257,'RGB16',photometric='rgb',predictor=pr,**kw)
        tif(base.astype(np.uint16)*r.choice([1,2,257]),'L16',photometric='minisblack',predictor=pr,**kw)
        tif((base.astype(np.int16)-50)*2,'I16',photometric='minisblack',**kw)
        tif(base.astype(np.float32)*1.2-10,'F',photometric='minisblack',predictor=pr,**kw)
        tif(base.astype(np.int32)*2-30,'I32',photometric='minisblack',**kw)
        tif(base>128,'bits',photometric=r.choice(['minisblack','miniswhite']),**kw)
        tif(base,'P',photometric='palette',colormap=g.randint(0,65536,(3,256)).astype(np.uint16),**kw)
for o in range(1,9): tif(rgb,'or%d'%o,photometric='rgb',extratags=[(274,'H',1,o,True)],compression=r.choice([None,'lzw']))

def pillow(path):
    try:
        with Image.open(path) as im:
            return zlib.crc32(im.convert("RGB").tobytes())
    except Exception:
        return None


def skip(name):
    """Kinds that Pillow reads in the wrong byte order, and that are not read here."""
    return any(x in name for x in ("tif_jpeg_RGBA", "tif_jpeg_LA", "tif_jpeg_CMYK", "tif_jpeg_P"))


files, seen = [], set()
for path in sorted(glob.glob(out + "/*")):
    name = os.path.basename(path).split("_", 2)[2]
    data = open(path, "rb").read()
    swapped = "tifffile_" in name and data[:2] == b"MM" and name.split("_")[1][:-4] in ("I16", "I32", "F")
    if len(data) <= 4000 and not skip(name) and not swapped and data not in seen:
        seen.add(data)
        files.append({"name": name, "crc": pillow(path), "data": base64.b64encode(zlib.compress(data, 9)).decode()})
about = f"Pillow {__version__}; data is deflated, base64"
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "variants.json"), "w") as f:
    f.write('{"about": ' + json.dumps(about) + ', "files": [\n' + ",\n".join(json.dumps(x) for x in files) + "\n]}\n")
print(len(files), "files,", sum(x["crc"] is None for x in files), "refused")
