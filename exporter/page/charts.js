// Draws the charts of the last hour by dygraphs, and makes them usable by keys and screen readers.
"use strict";
const SERIES_MOST = 7, HOUR_MS = 3600e3, LEAST_MS = 60e3, BEFORE_MS = 8e3;
const charts = new Map();
let history = null;

export const hasPlots = () => Boolean(window.Dygraph);
export const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const time = (date, seconds) => new Date(date).toLocaleTimeString([],
	{hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined, hour12: false});

// dygraphs measures its legend by a style attribute, which the page's policy forbids, and the page has legends of its own.
if (hasPlots())
	Dygraph.PLUGINS = Dygraph.PLUGINS.filter(plugin => plugin !== Dygraph.Plugins.Legend);

function size(bytes) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let unit = 0;
	for (; bytes >= 1023.95 && unit < 4; unit++)
		bytes /= 1024;
	return `${Number(bytes.toFixed(unit ? 1 : 0))} ${units[unit]}`;
}

function sizeTicks(high) {
	let step = 2 ** 20;
	while (high / step > 5)
		step *= 2;
	return Array.from({length: Math.floor(high / step) + 1}, (_, i) => ({v: i * step, label: size(i * step)}));
}

// The growth of a counter of GPU time between two points, in percent of the time.
export function percents(times, counter) {
	return times.map((at, i) => {
		const before = counter?.[i - 1], now = counter?.[i], seconds = at - times[i - 1];
		if (!i || before == null || now == null || now < before || seconds <= 0)
			return null;
		return Math.min(100, (now - before) / seconds / 1e7);
	});
}

// Keeps the points after the last time at which the machine's clock was set back.
function cutAtJump(answer) {
	const first = answer.times.findLastIndex((at, i) => i && at <= answer.times[i - 1]);
	if (first <= 0)
		return answer;
	const cut = value => Array.isArray(value) ? value.slice(first) : value;
	return {...answer, times: cut(answer.times), series: answer.series.map(one =>
		Object.fromEntries(Object.entries(one).map(([name, value]) => [name, cut(value)])))};
}

// The time that all charts show: an hour, or less if the daemon has not run that long; then it begins a little before the
// first sample, with the events that caused it. It ends with the last sample,
// since the clock of this browser may differ.
export function timeWindow() {
	const times = history.times, end = times.at(-1) * 1000;
	return [Math.max(end - HOUR_MS, Math.min(times[0] * 1000 - BEFORE_MS, end - LEAST_MS)), end];
}

export const lastHistory = () => history;

function sum(lines) {
	return history.times.map((_, i) => lines.reduce((total, line) =>
		line.points[i] == null ? total : (total ?? 0) + line.points[i], null));
}

// Chooses the lines of a chart: the vGPUs with the highest points, and the sum of all others.
function chooseLines(device, isMemory) {
	const lines = history.series.filter(one => one.device === device && one.vgpu !== null).map(one => ({name: one.vgpu,
		points: isMemory ? history.times.map((_, i) => one.charged?.[i] ?? 0) : percents(history.times, one.gpu_ns)}))
		.filter(line => line.points.some(point => point !== null));
	const ranked = [...lines].sort((a, b) => Math.max(...b.points) - Math.max(...a.points));
	const kept = new Set(ranked.slice(0, lines.length > SERIES_MOST + 1 ? SERIES_MOST : SERIES_MOST + 1));
	const chosen = lines.filter(line => kept.has(line)).map((line, i) => ({...line, color: `s${i + 1}`}));
	if (lines.length > chosen.length)
		chosen.push({name: `${lines.length - chosen.length} others`, color: "s8",
			points: sum(lines.filter(line => !kept.has(line)))});
	return chosen;
}

function showLegend(chart, row) {
	const isLast = row === undefined || row < 0;
	const at = isLast ? history.times.length - 1 : row, parts = [document.createElement("b")], spoken = [];
	parts[0].textContent = isLast ? "now" : time(history.times[at] * 1000);
	for (const line of chart.lines) {
		const part = document.createElement("span"), swatch = document.createElement("span");
		const point = line.points[at], text = point == null ? "–" : chart.isMemory ? size(point) : `${Math.round(point)} %`;
		swatch.className = `swatch ${line.color}`;
		part.append(swatch, `${line.name} ${text}`);
		parts.push(part);
		spoken.push(`${line.name} ${text}`);
	}
	if (!chart.lines.length)
		parts.push(chart.isMemory ? "no vGPUs" : "known while programs take turns");
	chart.legend.replaceChildren(...parts);
	chart.place.setAttribute("aria-valuenow", at);
	chart.place.setAttribute("aria-valuetext", `${parts[0].textContent}: ${spoken.join(", ") || "nothing"}`);
}

export function timeAxis() {
	const label = date => time(date, date.getSeconds() !== 0);
	return {axisLineColor: color("--line"), gridLineColor: color("--line"), axisLabelFontSize: 12, drawGrid: false,
		axisLabelFormatter: label, pixelsPerLabel: 80, axisLabelWidth: 60};
}

export function laneAxis(ticker) {
	return {axisLineColor: color("--line"), gridLineColor: color("--line"), axisLabelFontSize: 12, axisLabelWidth: 62, ticker};
}

function options(chart) {
	const lines = chart.lines.length ? chart.lines : [{name: "none", color: "line"}];
	return {
		labels: ["time", ...lines.map((line, i) => `${i} ${line.name}`)], colors: lines.map(line => color(`--${line.color}`)),
		stackedGraph: chart.isMemory, fillGraph: chart.isMemory, fillAlpha: 0.35, strokeWidth: 1.6, interactionModel: {},
		highlightCircleSize: 3, rightGap: 8, dateWindow: timeWindow(), valueRange: chart.isMemory ? [0, chart.top] : [0, 102],
		highlightCallback: (event, x, points, row) => showLegend(chart, row), unhighlightCallback: () => showLegend(chart),
		axes: {x: timeAxis(), y: laneAxis((low, high) => chart.isMemory ? sizeTicks(high) :
			[0, 25, 50, 75, 100].map(v => ({v, label: `${v} %`})))},
	};
}

function rowsOf(chart) {
	return history.times.map((at, i) =>
		[new Date(at * 1000), ...(chart.lines.length ? chart.lines.map(line => line.points[i]) : [null])]);
}

// The arrow keys move along the time, as on a slider, and a screen reader reads the figures of that time.
function addKeys(chart) {
	const place = chart.place;
	place.tabIndex = 0;
	place.setAttribute("role", "slider");
	place.setAttribute("aria-label", `${place.closest("figure").querySelector("figcaption").textContent}: time`);
	place.setAttribute("aria-valuemin", 0);
	place.addEventListener("keydown", event => {
		const last = history.times.length - 1, at = Number(place.getAttribute("aria-valuenow"));
		const to = {ArrowLeft: at - 1, ArrowRight: at + 1, ArrowDown: at - 1, ArrowUp: at + 1, PageUp: at - 15, PageDown: at + 15,
			Home: 0, End: last}[event.key];
		if (to === undefined || event.ctrlKey || event.altKey || event.metaKey)
			return;
		event.preventDefault();
		const row = Math.max(0, Math.min(last, to));
		chart.plot.setSelection(row);
		showLegend(chart, row);
	});
	place.addEventListener("blur", () => {
		chart.plot.clearSelection();
		showLegend(chart);
	});
}

function drawChart(place) {
	const chart = charts.get(place) ?? {place, legend: place.parentElement.querySelector(".legend")};
	chart.isMemory = place.dataset.figure === "memory";
	chart.lines = chooseLines(Number(place.dataset.device), chart.isMemory);
	chart.top = Math.max(2 ** 20, ...sum(chart.lines)) * 1.08;
	place.hidden = chart.legend.hidden = false;
	place.setAttribute("aria-valuemax", history.times.length - 1);
	if (charts.has(place)) {
		chart.plot.updateOptions({...options(chart), file: rowsOf(chart)});
		if (chart.plot.getSelection() < 0)
			showLegend(chart);
		return;
	}
	chart.plot = new Dygraph(place, rowsOf(chart), options(chart));
	charts.set(place, chart);
	addKeys(chart);
	showLegend(chart);
}

export function drawCharts() {
	if (hasPlots() && history?.times.length)
		document.querySelectorAll("#hour .chart").forEach(drawChart);
}

export function setHistory(answer) {
	history = cutAtJump(answer);
	drawCharts();
}

// Forgets the charts, before their places are replaced.
export function removeCharts() {
	charts.forEach(chart => chart.plot.destroy());
	charts.clear();
}
