"""Losses as PyTorch programs, for bench/peers/losses.py: RELEASED follows the pattern of the papers' released code (probabilities,
an epsilon inside logarithms, boolean-mask indexing, checks, parts copied to numpy), LEAN is the same mathematics on whole matrices from
logits, the best that one writes by hand. Both take inputs (z, y, t, a, l, u; s the strong view's logits, f and c the
embeddings and classes of LAC's queue) and return the loss."""
import math
import torch
import torch.nn.functional as F

ALPHA, BETA, K, SMOOTH, RATE = 0.1, 0.9, 1.5, 0.1, 0.004
W, B, MU, SIGMA, Q2, Q3 = 5.0, -5.0, 0.65, 1.25, 0.01, 1.0
LO, HI, RHO, ETA, BETA_POS = 0.5, 0.7, 0.9, 0.001, 0.7
CLIP, MARGIN, TAU, LAM, FOCAL = 0.2, 1.0, 0.6, 1.5, 0.75
DELTA, DELTA_LAC, HEAT, QUEUE, WIDTH = 0.6, 0.9, 0.5, 512, 128


def count(p):
    return ((p.sum(1).mean() - K) / p.size(1)) ** 2


# ---------------------------------------------------------------- as released
def nlog(x, eps=1e-5):
    return -torch.log(x + eps)


def wrapped(z, y, terms):
    """Sigmoid, checks, matrix, weights, sum, copies for the log."""
    p = torch.sigmoid(z)
    assert p.shape == y.shape
    assert torch.max(y) <= 1 and torch.min(y) >= -1
    assert torch.max(p) <= 1 and torch.min(p) >= 0
    m, reg = terms(p, y)
    weight = float(p.shape[0] * p.shape[1]) * torch.ones_like(p)
    value = (m / weight).sum()
    if reg is not None:
        value = value + reg
        reg.detach().clone().cpu().numpy()
    value.detach().clone().cpu().numpy()
    return value


def masked(p, branches):
    """m[mask] = f(p[mask]) for each branch."""
    m = torch.zeros_like(p)
    for mask, f in branches:
        m[mask] = f(p[mask])
    return m


def r_cross(positive, negative):
    def terms(p, y):
        assert torch.min(y) >= 0
        return masked(p, [(y == 1, positive), (y == 0, negative(p))]), None
    return lambda z, y: wrapped(z, y, terms)


r_an = r_cross(nlog, lambda p: lambda x: nlog(1.0 - x))
r_wan = r_cross(nlog, lambda p: lambda x: nlog(1.0 - x) / float(p.shape[1] - 1))
r_an_ls = r_cross(lambda x: (1 - SMOOTH) * nlog(x) + SMOOTH * nlog(1.0 - x), lambda p: lambda x: (1 - SMOOTH) * nlog(1.0 - x) + SMOOTH * nlog(x))


def minus_entropy(x):
    return -ALPHA * (x * nlog(x) + (1.0 - x) * nlog(1.0 - x))


def r_epr(z, y):
    def terms(p, y):
        assert torch.min(y) >= 0
        return masked(p, [(y == 1, nlog)]), count(p)
    return wrapped(z, y, terms)


def r_em(z, y):
    def terms(p, y):
        assert torch.min(y) >= 0
        return masked(p, [(y == 1, nlog), (y == 0, minus_entropy)]), None
    return wrapped(z, y, terms)


def r_em_apl(z, y):
    def terms(p, y):
        assert torch.min(y) >= -1
        soft = y < 0
        s = -y[soft]
        return masked(p, [(y == 1, nlog), (y == 0, minus_entropy), (soft, lambda x: BETA * (s * nlog(x) + (1.0 - s) * nlog(1.0 - x)))]), None
    return wrapped(z, y, terms)


def r_vlpl(z, y, l):
    def terms(p, y):
        both = torch.where(y == 0, l, y)
        assert torch.min(both) >= -1
        pseudo = (y == 0) & (l == 1)
        return masked(p, [(y == 1, nlog), (both == 0, minus_entropy), (pseudo, lambda x: BETA_POS * (RHO * nlog(x) + (1 - RHO) * nlog(1.0 - x)))]), None
    return wrapped(z, y, terms)


def r_role(z, y, u):
    def terms(p, y):
        t = torch.sigmoid(u)
        main = masked(p, [(y == 1, nlog)]) + masked(t, [(y == 1, nlog)])
        td, pd = t.detach(), p.detach()
        cross = td * nlog(p) + (1.0 - td) * nlog(1.0 - p) + pd * nlog(t) + (1.0 - pd) * nlog(1.0 - t)
        return 0.5 * (main + cross), 0.5 * (count(p) + count(t))
    return wrapped(z, y, terms)


def r_large(z, y, correct):
    assert torch.min(y) >= 0
    own = F.binary_cross_entropy_with_logits(z, y.clip(0), reduction="none")
    other = F.binary_cross_entropy_with_logits(z, torch.logical_not(y.clip(0)).float(), reduction="none")
    unknown = (y == 0).bool() * own
    least = torch.topk(unknown.flatten(), math.ceil(z.numel() * RATE - 1e-9)).values[-1]
    torch.where(unknown > least)
    return torch.where(unknown < least, own, other if correct else torch.zeros_like(own)).mean()


def curves(p):
    c = p.detach()
    return torch.sigmoid(W * c + B), torch.exp(-((c - MU) ** 2) / (2 * SIGMA ** 2))


def power(x, q):
    return (1 - torch.pow(x, q)) / q


def r_gr(z, y):
    p = torch.sigmoid(z)
    k, v = curves(p)
    none = y == 0
    m = masked(p, [(y == 1, lambda x: nlog(x, 1e-7)), (none, lambda x: v[none] * (k[none] * power(x, Q2) + (1 - k[none]) * power(1 - x, Q3)))])
    return m.mean()


def r_gpr(z, y, l):
    p = torch.sigmoid(z)
    k, v = curves(p)
    v4 = torch.clamp(1 - v, LO, HI)
    none, pos, neg = (y == 0) & (l == 0), (y == 0) & (l == 1), (y == 0) & (l == -1)
    m = masked(p, [
        (y == 1, lambda x: nlog(x, 1e-7)),
        (none, lambda x: v[none] * (k[none] * power(x, Q2) + (1 - k[none]) * power(1 - x, Q3))),
        (pos, lambda x: v4[pos] * (RHO * nlog(x, 1e-7) + (1 - RHO) * nlog(1 - x, 1e-7))),
        (neg, lambda x: v[neg] * nlog(1 - x, 1e-7)),
    ])
    return m.mean() + ETA * count(p)


def r_asl(z, y):
    p = torch.sigmoid(z)
    n = (1 - p + CLIP).clamp(max=1)
    terms = y * torch.log(p.clamp(min=1e-8)) + (1 - y) * torch.log(n.clamp(min=1e-8))
    with torch.no_grad():
        weight = torch.pow(1 - (p * y + n * (1 - y)), 2.0 * (1 - y))
    return -(terms * weight).mean()


def r_focal(z, y):
    p = torch.sigmoid(z)
    ce = F.binary_cross_entropy_with_logits(z, y, reduction="none")
    right = p * y + (1 - p) * (1 - y)
    return ((FOCAL * y + (1 - FOCAL) * (1 - y)) * ce * (1 - right) ** 2.0).mean()


def r_hill(z, y):
    pm = torch.sigmoid(torch.where(y == 1, z - MARGIN, z))
    weight = ((1 - pm) * y + (1 - y)) ** 2.0
    p = torch.sigmoid(z)
    return -(y * torch.log(pm) * weight + (1 - y) * -(LAM - p) * p ** 2.0).sum()


def r_splc(z, y):
    zm = torch.where(y == 1, z - MARGIN, z)
    p = torch.sigmoid(zm)
    now = torch.where(p > TAU, torch.ones_like(y), y)
    right = p * now + (1 - p) * (1 - now)
    return -((now * F.logsigmoid(zm) + (1 - now) * F.logsigmoid(-zm)) * (1 - right) ** 2.0).sum()


# ---------------------------------------------------------------- lean
def sn_sp(z):
    return -F.logsigmoid(z), -F.logsigmoid(-z)


def l_wan(z, y):
    return F.binary_cross_entropy_with_logits(z, y, weight=y + (1 - y) / (z.size(1) - 1))


def l_an_ls(z, y):
    return F.binary_cross_entropy_with_logits(z, y * (1 - 2 * SMOOTH) + SMOOTH)


def l_epr(z, y):
    return (y * -F.logsigmoid(z)).mean() + count(torch.sigmoid(z))


def l_minus_entropy(z, sn, sp):
    p = torch.sigmoid(z)
    return -ALPHA * (p * sn + (1 - p) * sp)


def l_em(z, y):
    sn, sp = sn_sp(z)
    return torch.where(y == 1, sn, l_minus_entropy(z, sn, sp)).mean()


def l_em_apl(z, y):
    sn, sp = sn_sp(z)
    return torch.where(y == 1, sn, torch.where(y < 0, BETA * ((1 + y) * sp - y * sn), l_minus_entropy(z, sn, sp))).mean()


def l_vlpl(z, y, l):
    sn, sp = sn_sp(z)
    pseudo = torch.where(l == 1, BETA_POS * (RHO * sn + (1 - RHO) * sp), torch.where(l == -1, torch.zeros_like(z), l_minus_entropy(z, sn, sp)))
    return torch.where(y == 1, sn, pseudo).mean()


def l_role(z, y, u):
    p, t = torch.sigmoid(z), torch.sigmoid(u)
    (sn, sp), (tn, tp) = sn_sp(z), sn_sp(u)
    td, pd = t.detach(), p.detach()
    m = y * (sn + tn) + td * sn + (1 - td) * sp + pd * tn + (1 - pd) * tp
    return 0.5 * (m.mean() + count(p) + count(t))


def l_large(z, y, correct):
    with torch.no_grad():
        ce = F.binary_cross_entropy_with_logits(z, y, reduction="none")
        at = torch.topk((ce * (1 - y)).flatten(), math.ceil(z.numel() * RATE - 1e-9)).indices
        changed = y.clone() if correct else torch.ones_like(y)
        changed.view(-1)[at] = 1.0 if correct else 0.0
    if correct:
        return F.binary_cross_entropy_with_logits(z, changed)
    return F.binary_cross_entropy_with_logits(z, y, weight=changed)


def l_unknown(p, sn, k, v):
    return v * (k * -torch.expm1(-Q2 * sn) / Q2 + (1 - k) * p)


def l_gr(z, y):
    p, (sn, _) = torch.sigmoid(z), sn_sp(z)
    k, v = curves(p)
    return torch.where(y == 1, sn, l_unknown(p, sn, k, v)).mean()


def l_gpr(z, y, l):
    p, (sn, sp) = torch.sigmoid(z), sn_sp(z)
    k, v = curves(p)
    pseudo = torch.where(l == 1, torch.clamp(1 - v, LO, HI) * (RHO * sn + (1 - RHO) * sp), torch.where(l == -1, v * sp, l_unknown(p, sn, k, v)))
    return torch.where(y == 1, sn, pseudo).mean() + ETA * count(p)


def l_asl(z, y):
    n = (torch.sigmoid(-z) + CLIP).clamp(max=1)
    weight = ((1 - n) ** 2).detach()
    return torch.where(y == 1, -F.logsigmoid(z), weight * -torch.log(n)).mean()


def l_focal(z, y):
    p, (sn, sp) = torch.sigmoid(z), sn_sp(z)
    return torch.where(y == 1, FOCAL * (1 - p) ** 2 * sn, (1 - FOCAL) * p * p * sp).mean()


def l_hill(z, y):
    p, pm = torch.sigmoid(z), torch.sigmoid(z - MARGIN)
    return torch.where(y == 1, (1 - pm) ** 2 * -F.logsigmoid(z - MARGIN), (LAM - p) * p * p).sum()


def l_splc(z, y):
    zm = z - MARGIN * y
    p, (sn, sp) = torch.sigmoid(zm), sn_sp(zm)
    return torch.where((y == 1) | (p > TAU), (1 - p) ** 2 * sn, p * p * sp).sum()


# ---------------------------------------------------------------- LAC, whose released code works on logits already
def r_plc(z, s, y, delta=DELTA):
    an = F.binary_cross_entropy_with_logits(z, y, reduction="mean")
    pseudo = torch.sigmoid(z.detach()) + y
    mask = ((pseudo >= delta) | (pseudo < (1 - delta))).float()
    hard = (pseudo >= delta).float()
    return an + (F.binary_cross_entropy_with_logits(s, hard, reduction="none") * mask).sum() / mask.sum()


def l_plc(z, s, y, delta=DELTA):
    pseudo = torch.sigmoid(z.detach()).add_(y)
    hard = pseudo >= delta
    mask = (pseudo < 1 - delta).logical_or_(hard).to(z.dtype)
    kept = F.binary_cross_entropy_with_logits(s, hard.to(z.dtype), weight=mask, reduction="sum") / mask.sum()
    return F.binary_cross_entropy_with_logits(z, y) + kept


def r_contrast(f, c):
    labels = c.flatten()
    labels = labels[labels != 0]
    n, views = labels.shape[0], f.reshape(-1, 2, WIDTH)
    labels = labels.contiguous().view(-1, 1)
    x = torch.cat(torch.unbind(views[:n], dim=1), dim=0)
    logits = torch.div(torch.matmul(x, x.T), HEAT)
    logits = logits - torch.max(logits, dim=1, keepdim=True)[0].detach()
    mask = torch.eq(labels, labels.T).float().repeat(2, 2)
    others = torch.scatter(torch.ones_like(mask), 1, torch.arange(2 * n).view(-1, 1), 0)
    mask = mask * others
    log_prob = logits - torch.log((torch.exp(logits) * others).sum(1, keepdim=True))
    return -((mask * log_prob).sum(1) / mask.sum(1)).view(2, n).mean()


def l_contrast(f, c):
    x, labels = f.reshape(-1, 2, WIDTH).transpose(0, 1).reshape(-1, WIDTH), c.flatten().repeat(2)
    logits = (x @ x.T).mul_(1 / HEAT)
    logits = logits.masked_fill(torch.eye(len(x), dtype=torch.bool, device=x.device), -torch.inf)
    mask = (labels[:, None] == labels).fill_diagonal_(False).to(x.dtype)
    per = (torch.where(mask > 0, logits, 0).sum(1) / mask.sum(1))
    return (torch.logsumexp(logits, 1) - per).mean()


def r_lac(z, s, y, f, c):
    return r_plc(z, s, y, DELTA_LAC) + r_contrast(f, c)


def l_lac(z, s, y, f, c):
    return l_plc(z, s, y, DELTA_LAC) + l_contrast(f, c)


bce = F.binary_cross_entropy_with_logits
# id of the registry: (released, lean, inputs, further arguments)
FORMS = {
    "bce": (r_an, bce, "zt", ()), "an": (r_an, bce, "zy", ()), "wan": (r_wan, l_wan, "zy", ()), "an-ls": (r_an_ls, l_an_ls, "zy", ()),
    "epr": (r_epr, l_epr, "zy", ()), "em": (r_em, l_em, "zy", ()), "em-apl": (r_em_apl, l_em_apl, "za", ()),
    "ll-r": (r_large, l_large, "zy", (False,)), "ll-ct": (r_large, l_large, "zy", (True,)), "ll-cp": (r_large, l_large, "zy", (True,)),
    "role": (r_role, l_role, "zyu", ()), "gr": (r_gr, l_gr, "zy", ()), "gpr": (r_gpr, l_gpr, "zyl", ()), "asl": (r_asl, l_asl, "zy", ()),
    "focal": (r_focal, l_focal, "zy", ()), "hill": (r_hill, l_hill, "zy", ()), "splc": (r_splc, l_splc, "zy", ()), "vlpl": (r_vlpl, l_vlpl, "zyl", ()),
    "plc": (r_plc, l_plc, "zsy", ()), "lac": (r_lac, l_lac, "zsyfc", ()),
}


def inputs(rows, classes):
    """Logits uniform in (-5, 3), one positive a row, 3 % more true ones, 40 % soft negatives, pseudo-labels, estimates;
    a strong view near the weak one, and a full queue of pairs of unit vectors."""
    g = torch.Generator().manual_seed(classes)
    z = torch.rand(rows, classes, generator=g) * 8 - 5
    y = torch.zeros(rows, classes)
    y[torch.arange(rows), torch.randint(0, classes, (rows,), generator=g)] = 1
    r = torch.rand(rows, classes, generator=g)
    given = torch.rand(rows, classes, generator=g) * 2 - 1
    pairs = F.normalize(torch.randn(QUEUE, 2, WIDTH, generator=g), dim=2)
    return {
        "z": z, "y": y, "t": torch.where(r < 0.03, torch.ones_like(y), y), "a": torch.where((y == 0) & (r > 0.6), -torch.sigmoid(z), y),
        "l": torch.where(r < 0.02, 1.0, torch.where(r > 0.7, -1.0, 0.0)), "u": given * 0.405,
        "s": z + torch.randn(rows, classes, generator=g), "f": pairs.reshape(QUEUE, -1),
        "c": torch.randint(1, classes + 1, (QUEUE, 1), generator=g).float(),
    }
