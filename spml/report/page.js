'use strict';
(() => {
  const $ = id => document.getElementById(id), fmt = v => isNaN(v) ? '–' : v.toFixed(3);
  const epoch = $('epoch'), threshold = $('threshold'), pickRun = $('run'), pickClass = $('class');
  let run = runs[0];
  const [left, width, high, row] = [8, 444, 54, 80];
  const svg = (name, attrs, text) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const k in attrs) e.setAttribute(k, attrs[k]);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  function ridges() {
    const box = $('ridges');
    if (!box) return;
    const at = run.epochs[Math.min(epoch.value, run.epochs.length) - 1];
    const chart = box.querySelector('svg'), head = chart.querySelector('.h').textContent, foot = [...chart.querySelectorAll('text.m')].pop().textContent;
    if (!at) { box.hidden = true; return; }
    box.hidden = false;
    $('epoch-out').textContent = at.epoch;
    const total = 28 + row * at.rows.length + 34;
    chart.setAttribute('viewBox', `0 0 460 ${total}`);
    chart.replaceChildren(svg('text', {class: 'h', x: 4, y: 16}, head));
    at.rows.forEach((r, i) => {
      const y = 28 + i * row, n = r.counts.reduce((a, b) => a + b, 0), most = Math.max(...r.counts), w = width / r.counts.length;
      const name = svg('text', {x: left, y: y + 14}, r.name + ' ');
      name.append(svg('tspan', {class: 'm'}, n ? `${n}, mean ${r.mean.toFixed(2)}` : 'none'));
      let d = '';
      r.counts.forEach((k, b) => { if (k) { const h = Math.max(.8, high * k / most); d += `M${left + w * b} ${high}v${-h}h${w}v${h}z`; } });
      chart.append(name, svg('path', {class: 'f' + r.colour, 'fill-opacity': .8, transform: `translate(0 ${y + 20})`, d}),
        svg('path', {class: 'axis', d: `M${left} ${y + 20 + high}h${width}`}), svg('path', {class: 'axis', 'stroke-dasharray': '3 2', d: `M${left + width * r.mean} ${y + 20}v${high}`}));
    });
    const base = 28 + row * at.rows.length;
    for (let k = 0; k <= 5; k++) chart.append(svg('text', {x: left + width * k / 5, y: base + 8, 'text-anchor': k ? k < 5 ? 'middle' : 'end' : 'start'}, String(k / 5)));
    chart.append(svg('text', {class: 'm', x: 230, y: base + 26, 'text-anchor': 'middle'}, foot));
  }
  function counts(k, t) {
    let tp = 0, fp = 0, all = 0;
    const b = run.bins;
    for (const c of k < 0 ? b.positive.keys() : [k]) for (let i = 0; i < 100; i++) {
      all += b.positive[c][i];
      if (i >= t) { tp += b.positive[c][i]; fp += b.negative[c][i]; }
    }
    return {given: tp + fp, p: tp / (tp + fp), r: tp / all, f: 2 * tp / (tp + fp + all)};
  }
  function thresholds() {
    const box = $('threshold-plot');
    if (!box || !run.bins) return;
    const k = +pickClass.value, t = +threshold.value, now = counts(k, t), chart = box.querySelector('svg');
    const x = v => 46 + v * 400, y = v => 30 + (1 - v) * 196;
    const curves = {s2: 'p', s3: 'r', s1: 'f'};
    for (const c in curves) {
      chart.querySelectorAll(`polyline.${c}`).forEach((e, i) => { if (i) e.remove(); });
      const line = chart.querySelector(`polyline.${c}`);
      const at = [];
      for (let i = 0; i < 100; i++) { const v = counts(k, i)[curves[c]]; if (!isNaN(v)) at.push(`${x(i / 100).toFixed(1)},${y(v).toFixed(1)}`); }
      if (line) line.setAttribute('points', at.join(' '));
    }
    let mark = chart.querySelector('#mark');
    if (!mark) chart.append(mark = svg('path', {id: 'mark', class: 'axis', 'stroke-width': 1.5, 'stroke-dasharray': '4 3'}));
    mark.setAttribute('d', `M${x(t / 100)} 30v196`);
    $('threshold-out').textContent = (t / 100).toFixed(2);
    $('precision').textContent = fmt(now.p); $('recall').textContent = fmt(now.r); $('f1').textContent = fmt(now.f); $('given').textContent = now.given;
  }
  function choose() {
    run = runs[pickRun ? +pickRun.value : 0];
    if (epoch) { epoch.max = Math.max(run.epochs.length, 1); epoch.value = epoch.max; }
    if (pickClass) {
      const old = pickClass.value;
      pickClass.replaceChildren(new Option('all, pooled', -1), ...(run.classes || []).map((c, i) => new Option(`${c.name} (${c.positives})`, i)));
      pickClass.value = [...pickClass.options].some(o => o.value === old) ? old : '-1';
      threshold.value = Math.round(100 * run.threshold);
    }
    ridges(); thresholds();
  }
  if (epoch) epoch.addEventListener('input', ridges);
  if (threshold) threshold.addEventListener('input', thresholds);
  if (pickClass) pickClass.addEventListener('change', thresholds);
  if (pickRun) pickRun.addEventListener('change', choose);
  choose();
})();
