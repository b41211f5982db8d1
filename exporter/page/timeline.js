// Draws the timeline by dygraphs. Each vGPU has a lane with its GPU time as bars, the times for which it was suspended
// or moved out as bands, and its events as marks. Events without a vGPU are in the lane of the daemon.
"use strict";
import {color, hasPlots, laneAxis, lastHistory, percents, time, timeAxis, timeWindow} from "/charts.js";

const LANES_MOST = 20, LANE_PX = 22, DAEMON = "daemon";
const BEGINS = {suspended: "resumed", evicted: "returned"};
// A mark covers those of earlier rows. The first row is for the kinds that no other row has.
const MARKS = [
	{kinds: [], color: "--s4", draw: drawDiamond},
	{kinds: ["entered"], color: "--s3", draw: drawDot},
	{kinds: ["left", "died"], color: "--text", draw: drawRing},
	{kinds: ["refused", "denied", "damaged", "omitted"], color: "--alert", draw: drawCross},
];
const place = document.getElementById("timeline");
let events = [], plot = null, state = null;

function drawCross(context, x, y) {
	context.lineWidth = 2.5;
	for (const sign of [-1, 1]) {
		context.moveTo(x - 5, y - 5 * sign);
		context.lineTo(x + 5, y + 5 * sign);
	}
	context.stroke();
}

function drawDot(context, x, y) {
	context.arc(x, y, 3.5, 0, 2 * Math.PI);
	context.fill();
}

function drawRing(context, x, y) {
	context.lineWidth = 1.5;
	context.arc(x, y, 3.5, 0, 2 * Math.PI);
	context.stroke();
}

function drawDiamond(context, x, y) {
	context.moveTo(x, y - 5);
	context.lineTo(x + 4, y);
	context.lineTo(x, y + 5);
	context.lineTo(x - 4, y);
	context.fill();
}

const isBand = kind => kind in BEGINS || Object.values(BEGINS).includes(kind);
const laneOf = event => event.vgpu || DAEMON;

// The lanes from the top: vGPUs with samples, removed vGPUs with events, and the daemon.
function chooseLanes(shown) {
	const names = new Set(lastHistory().series.filter(one => one.vgpu !== null).map(one => one.vgpu));
	shown.forEach(event => names.add(laneOf(event)));
	names.delete(DAEMON);
	const lanes = [...names];
	return [...lanes.slice(0, LANES_MOST), DAEMON];
}

// The times for which the vGPU was suspended, or moved out. One that began before the events began at the left edge.
function findBands(shown, name, from, to) {
	const bands = [], open = {};
	for (const event of shown.filter(one => one.vgpu === name)) {
		const ends = Object.keys(BEGINS).find(kind => BEGINS[kind] === event.kind);
		if (event.kind in BEGINS)
			open[event.kind] ??= event.time * 1000;
		if (ends) {
			bands.push([open[ends] ?? from, event.time * 1000]);
			delete open[ends];
		}
		if (event.kind === "removed")
			Object.keys(open).forEach(kind => { bands.push([open[kind], event.time * 1000]); delete open[kind]; });
	}
	Object.values(open).forEach(begin => bands.push([begin, to]));
	return bands;
}

// Draws what is behind the marks: bands, bars, and the line on which the bars stand.
function drawLanes(context, area, graph) {
	const {lanes, bands, bars} = state, height = area.h / lanes.length, times = lastHistory().times;
	const x = at => Math.max(area.x, Math.min(area.x + area.w, graph.toDomXCoord(at)));
	lanes.forEach((name, i) => {
		const bottom = area.y + (i + 1) * height - 1;
		context.fillStyle = color("--band");
		for (const [begin, end] of bands.get(name))
			context.fillRect(x(begin), bottom - height + 3, Math.max(2, x(end) - x(begin)), height - 3);
		context.fillStyle = color("--bar");
		context.globalAlpha = 0.55;
		bars.get(name).forEach((percent, at) => {
			if (percent > 0)
				context.fillRect(x(times[at - 1] * 1000), bottom - percent / 100 * (height - 4),
					x(times[at] * 1000) - x(times[at - 1] * 1000), percent / 100 * (height - 4));
		});
		context.globalAlpha = 1;
		context.fillStyle = color("--line");
		context.fillRect(area.x, bottom, area.w, 1);
	});
}

function describe(event) {
	const who = [event.vgpu, event.command && `(${event.command})`].filter(Boolean).join(" ");
	return `${time(event.time * 1000, true)} ${event.kind} ${who}${event.text ? `: ${event.text}` : ""}`;
}

function showMoment(row) {
	const event = row === undefined ? null : state.rows[row]?.event;
	document.getElementById("moment").textContent = event ? describe(event) : "";
}

function makeRows(shown, lanes) {
	const find = kind => Math.max(0, MARKS.findIndex(mark => mark.kinds.includes(kind)));
	const rows = shown.filter(event => !isBand(event.kind) && lanes.includes(laneOf(event))).map(event => ({event,
		row: [new Date(event.time * 1000), ...MARKS.map((_, i) =>
			i === find(event.kind) ? lanes.length - 0.5 - lanes.indexOf(laneOf(event)) : null)]}));
	return rows.sort((a, b) => a.row[0] - b.row[0]);
}

function options() {
	const mark = (graph, name, context, x, y, paint) => {
		context.strokeStyle = context.fillStyle = paint;
		context.beginPath();
		MARKS[Number(name)].draw(context, x, y);
	};
	return {
		labels: ["time", ...MARKS.map((_, i) => String(i))], colors: MARKS.map(one => color(one.color)), strokeWidth: 0,
		drawPoints: true, pointSize: 5, drawPointCallback: mark, drawHighlightPointCallback: mark, interactionModel: {},
		valueRange: [0, state.lanes.length], dateWindow: timeWindow(), rightGap: 8, underlayCallback: drawLanes,
		highlightCallback: (event, x, points, row) => showMoment(row), unhighlightCallback: () => showMoment(),
		axes: {x: timeAxis(), y: {...laneAxis(() => state.lanes.map((name, i) =>
			({v: state.lanes.length - 0.5 - i, label: name}))), axisLabelWidth: 84, drawGrid: false}},
	};
}

export function drawTimeline() {
	const history = lastHistory();
	if (!hasPlots() || !history?.times.length)
		return;
	const [from, to] = timeWindow(), shown = events.filter(event => event.time * 1000 >= from), lanes = chooseLanes(shown);
	const gpuTime = name => history.series.find(one => one.vgpu === name)?.gpu_ns;
	state = {lanes, rows: makeRows(shown, lanes), bands: new Map(lanes.map(name => [name, findBands(shown, name, from, to)])),
		bars: new Map(lanes.map(name => [name, percents(history.times, gpuTime(name))]))};
	const rows = state.rows.length ? state.rows.map(one => one.row) : [[new Date(to), ...MARKS.map(() => null)]];
	const height = lanes.length * LANE_PX + 24;
	document.getElementById("timeline-figure").hidden = false;
	place.style.height = `${height}px`;
	if (!plot)
		plot = new Dygraph(place, rows, options());
	else
		plot.updateOptions({...options(), file: rows}, place.clientHeight !== plot.height_);
	if (plot.size().height !== height)
		plot.resize();
}

export function setEvents(answer, isContinued) {
	events = (isContinued ? events.concat(answer) : answer).slice(-512);
	drawTimeline();
}
