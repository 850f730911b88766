"""Makes the files of this folder that are not ours: rank.json (scipy, scikit-learn), the exports of Label Studio's converter (label-studio-sdk) and of FiftyOne.

    go test ./spml/audit -run TestToolFiles -update     # what the tools are given
    python make.py rank | labelstudio | fiftyone        # each with that package installed
"""
import json
import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).parent
DECIDED = {1: "accept", 2: "refuse", 3: "accept", 4: "delete", 5: "accept"}  # by rank of the score


def rank():
    import numpy as np
    from scipy.stats import combine_pvalues, rankdata
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(7)
    cases = []
    for i in range(10):
        n, c = int(rng.integers(4, 15)), int(rng.integers(2, 7))
        labels = (rng.random((n, c)) < 0.4).astype(int)
        observed = np.where((labels == 1) & (rng.random((n, c)) < 0.4), 1, 0)
        if i % 3 == 1:
            observed = np.where((labels == 0) & (rng.random((n, c)) < 0.1), -1, observed)
        sources = ["model", "clip", "neighbours"][: 1 + i % 3]
        values = {}
        for s in sources:
            v = np.round(rng.random((n, c)) * 0.7 + 0.3 * labels, 1 if i % 2 else 4).astype(np.float32).astype(float)
            if s == "clip" and i % 2:
                v[rng.integers(0, n)] = np.nan
            values[s] = v
        m = observed == 0
        p, w = [], []
        weights = {s: float(np.round(rng.random() + 0.25, 2)) for s in sources} if i > 5 else None
        for s in sources:
            x = values[s][m]
            level = np.full(x.shape, np.nan)
            ok = ~np.isnan(x)
            level[ok] = (rankdata(x[ok]) - 0.5) / ok.sum()  # ties: their mean
            p.append(1 - level)
            w.append((weights or {}).get(s, 1.0))
        p, w = np.array(p), np.array(w)
        if weights is None:  # Fisher's statistic is -2 sum log p
            score = [1 - np.exp(-combine_pvalues(q[~np.isnan(q)], method="fisher").statistic / 2 / (~np.isnan(q)).sum()) for q in p.T]
        else:
            score = [1 - np.exp(np.average(np.log(q[~np.isnan(q)]), weights=w[~np.isnan(q)])) for q in p.T]
        score = np.array(score)
        y = labels[m]
        order = np.argsort(-score, kind="stable")
        at = np.argwhere(m)
        average = {"audit": average_precision_score(y, np.round(score, 12))}
        if len(sources) > 1:
            average |= {s: average_precision_score(y, np.nan_to_num(values[s][m], nan=-1)) for s in sources}
        missing, total = int(y.sum()), len(y)
        ks = sorted({k for k in (10, 20, 50) if k <= total} | {missing})
        of = []  # equal scores: the expected number of positives among the first k in a random order of them
        r = np.round(score, 12)
        for k in ks:
            cut = np.sort(r)[::-1][k - 1]
            above, tied = r > cut, r == cut
            of.append((y[above].sum() + y[tied].mean() * (k - above.sum())) / k)
        cases.append(dict(N=n, C=c, Observed=observed.ravel().tolist(), Labels=labels.ravel().tolist(),
                          Values={s: [None if np.isnan(x) else x for x in v.ravel().tolist()] for s, v in values.items()}, Weights=weights,
                          Scores=score.tolist(), Order=at[order].tolist(), Average=average, At=ks, Of=of))
    (here / "rank.json").write_text(json.dumps(cases))


def label_studio():
    from label_studio_sdk.converter import Converter
    from label_studio_sdk.label_interface import LabelInterface

    config = (here / "label-studio.xml").read_text()
    tasks = json.loads((here / "label-studio.json").read_text())
    interface = LabelInterface(config)
    interface.validate()
    for t in tasks:
        assert interface.validate_task({"data": t["data"]}), t
        for p in t["predictions"]:
            assert interface.validate_prediction(p), p
    ticked, raw = {}, []
    for i, t in enumerate(tasks):
        given = t["predictions"][0]["result"][0]["value"]["choices"]
        task = dict(id=i + 1, data=t["data"], annotations=[], predictions=t["predictions"])
        if i == 1:
            task["annotations"] = [dict(id=50, was_cancelled=True, result=[], created_at="2026-01-01T00:00:00Z", updated_at="2026-01-01T00:00:00Z", lead_time=1, completed_by=1)]
        else:
            chosen = [c for k, c in enumerate(given) if (i + k) % 3 != 1]
            if i == 2:
                chosen = ["café", *[c for c in chosen if c != "café"]]  # what no source proposed, perhaps
            if i == 3:
                chosen = chosen[:1]
            ticked[t["data"]["spml_image"]] = chosen
            result = [dict(id=f"r{i}", from_name="labels", to_name="image", type="choices", value=dict(choices=chosen))] if chosen else []
            task["annotations"] = [dict(id=100 + i, was_cancelled=False, ground_truth=False, result=result, created_at="2026-01-01T00:00:00Z", updated_at="2026-01-01T00:00:00Z",
                                        lead_time=3.5, completed_by=1)]
        raw.append(task)
    with tempfile.TemporaryDirectory() as d:
        source = pathlib.Path(d, "in.json")
        source.write_text(json.dumps(raw))
        c = Converter(config, d, download_resources=False)
        for name, convert in (("label_studio_export", c.convert_to_json), ("label_studio_export_min", c.convert_to_json_min)):
            out = pathlib.Path(d, name)
            convert(str(source), str(out), is_dir=False)
            result = json.loads((out / "result.json").read_text())
            (here / (name + ".json")).write_text(json.dumps(result, ensure_ascii=False, indent=1))
    (here / "label_studio_decided.json").write_text(json.dumps(dict(Annotated=len(ticked), Ticked=ticked), ensure_ascii=False, indent=1))


def fiftyone():
    """FiftyOne's importer reads our file, its samples are changed as a reviewer does and written in the form of its exporter. (The dataset itself would want a MongoDB.)"""
    from bson import json_util
    from fiftyone.utils.data.importers import LegacyFiftyOneDatasetImporter

    importer = LegacyFiftyOneDatasetImporter(str(here / "fiftyone"))  # what from_dir takes for a FiftyOneDataset without metadata.json
    importer.setup()
    samples = list(importer)
    assert len(samples) == len(json.loads((here / "fiftyone/samples.json").read_text())["samples"])
    found = sorted((c for s in samples for c in s["audit"].classifications), key=lambda c: -c.confidence)
    want = {c.id: DECIDED.get(k + 1) for k, c in enumerate(found)}
    out = []
    for s in samples:
        for c in s["audit"].classifications:
            if want[c.id] in ("accept", "refuse"):
                c.tags = [want[c.id], "seen"]
        s["audit"].classifications = [c for c in s["audit"].classifications if want[c.id] != "delete"]
        doc = s.to_mongo_dict(include_id=True)
        for k in ("_dataset_id", "_rand", "created_at", "last_modified_at"):  # what differs from run to run
            doc.pop(k, None)
        doc["filepath"] = doc["filepath"].split("testdata/")[-1]
        out.append(json.loads(json_util.dumps(doc)))
    (here / "fiftyone_export.json").write_text(json.dumps(dict(samples=out), ensure_ascii=False, indent=1))


for what in sys.argv[1:]:
    {"rank": rank, "labelstudio": label_studio, "fiftyone": fiftyone}[what]()
