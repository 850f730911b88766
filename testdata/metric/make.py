# Writes sklearn.json: average precision of 500 random cases. Case i is drawn from RandomState(i), so the test can draw it again.
import json, warnings
from pathlib import Path
import numpy as np, sklearn
from sklearn.metrics import average_precision_score
warnings.simplefilter('ignore')
def case(seed):
    g=np.random.RandomState(seed)
    n=int(g.randint(1,400)); kind=int(g.randint(6)); share=g.random_sample()
    u=g.random_sample(n); y=(g.random_sample(n)<share*share).astype(int)
    if kind==0: s=u
    elif kind==1: s=np.floor(u*8)/8            # heavy ties
    elif kind==2: s=np.round(u*64)/64-0.5      # ties and signs
    elif kind==3: s=(u-0.5)*1e4                # logits
    elif kind==4: s=np.zeros(n)+0.25           # all tied
    else: s=1-u*1e-7                           # saturated: ties of float32
    s=s.astype(np.float32)
    if kind==2: s[::5]=np.float32(-0.0)
    lab=int(g.randint(10))
    if lab==0: y[:]=0
    if lab==1: y[:]=1
    return s,y
out=[]
for seed in range(500):
    s,y=case(seed)
    ap=0.0 if y.sum()==0 else float(average_precision_score(y,s))
    # rank form: descending, later row first among ties
    o=np.lexsort((np.arange(len(s)),s+np.float32(0)))[::-1]
    t=y[o]; tp=np.cumsum(t); r=float((t*tp/np.arange(1,len(s)+1)).sum()/(t.sum()+1e-8))
    out.append([ap,r])
json.dump({"about":"average_precision_score of scikit-learn %s (0 without positives) and the rank form in numpy %s; case i is drawn from RandomState(i) as the test does"%(sklearn.__version__,np.__version__),"ap":out},open(Path(__file__).with_name('sklearn.json'), 'w'),separators=(',',':'))
