// Shows the single turns of the last seconds: a row for each GPU, drawn by dygraphs, with a block for each turn, and the
// figures of each vGPU as a table. Asks only while it is open, because the daemon records turns only while it is asked.
"use strict";
import {color, hasPlots, laneAxis, timeAxis} from "/charts.js";

const KEPT_MS = 5000, EVERY_MS = 1000, ANSWERS_AT_ONCE = 4, BLOCKS_MOST = 20000, LANE_PX = 36, COLORS = 8;
// What the vGPU does in a phase in which it has the GPU, and how opaque its block is: some overlap with those of others.
const PHASES = {holds: ["has", 1], alone: ["is alone on", 1], ends: ["ends its turn on", 0.45],
	beside: ["runs beside others on", 0.45], request: ["has a request on", 0.45]};
const byId = id => document.getElementById(id);
const details = byId("turns"), place = byId("turns-chart");
const colors = new Map(), last = new Map();
let blocks = [], next = 0, now = 0, begun = 0, since = 0, lostAt = -Infinity, chosen = null, plot = null, isFollowing = false;

// ---- blocks -----------------------------------------------------------------------------------------------

// Adds a part of a phase to its block, which earlier parts may have begun.
function addPart(part) {
	const block = last.get(part.vgpu);
	const begin = part.begin_ns / 1e6, end = part.end_ns / 1e6;
	if (block?.phase === part.phase && block.turn === part.turn && block.endNs === part.begin_ns) {
		Object.assign(block, {end, endNs: part.end_ns});
		block.launches = part.launches === null ? null : block.launches + part.launches;
		return;
	}
	const {vgpu, device, phase, turn, launches} = part;
	last.set(vgpu, {vgpu, device, phase, turn, begin, end, endNs: part.end_ns, launches});
	blocks.push(last.get(vgpu));
}

// Forgets all blocks, so that the next answer has all parts that the exporter keeps.
function beginAgain() {
	blocks = [];
	last.clear();
	next = 0;
	lostAt = -Infinity;
}

function addAnswer(answer) {
	const isNew = answer.since_ns / 1e6 !== begun;
	if (isNew) // another recording: no part of it is missing
		beginAgain();
	now = answer.now_ns / 1e6;
	begun = answer.since_ns / 1e6;
	next = answer.next;
	lostAt = answer.lost && !isNew ? now : lostAt;
	answer.phases.forEach(addPart);
}

// Forgets what is no longer shown, also of vGPUs that were removed.
function dropOld() {
	blocks = blocks.filter(block => block.end > Math.max(begun, now - KEPT_MS)).slice(-BLOCKS_MOST);
	const names = new Set(blocks.map(block => block.vgpu));
	for (const map of [colors, last])
		[...map.keys()].filter(name => !names.has(name)).forEach(name => map.delete(name));
	for (const name of names) {
		const used = new Set(colors.values());
		let free = 1;
		while (free < COLORS && used.has(free))
			free++;
		colors.set(name, colors.get(name) ?? free);
	}
	if (!blocks.includes(chosen))
		choose(null);
}

const isTurn = block => block.phase in PHASES;
const isShown = block => block.end > since;
const lengthOf = block => block.end - Math.max(block.begin, since);
const shownMs = () => Number(byId("turns-length").value);

// ---- table ------------------------------------------------------------------------------------------------

function sumUp(name) {
	const own = blocks.filter(block => block.vgpu === name && isShown(block)), holds = own.filter(block => block.phase === "holds");
	const sum = some => some.reduce((total, block) => total + lengthOf(block), 0), percent = some => now > since ?
		`${Math.round(100 * sum(some) / (now - since))} %` : "–";
	return [last.get(name).device, holds.length, holds.length ? `${(sum(holds) / holds.length).toFixed(1)} ms` : "–",
		percent(own.filter(isTurn)), percent(own.filter(block => block.phase === "waits")),
		own.some(block => block.launches === null) ? "–" : own.reduce((total, block) => total + block.launches, 0)];
}

function makeRow(name) {
	const row = document.createElement("tr"), head = document.createElement("th"), swatch = document.createElement("span");
	swatch.className = `swatch s${colors.get(name)}`;
	head.scope = "row";
	head.append(swatch, name);
	row.append(head);
	for (const text of sumUp(name))
		row.insertCell().textContent = text;
	[...row.cells].slice(1).forEach(cell => { cell.className = "number"; });
	return row;
}

function showTable() {
	byId("turns-table").tBodies[0].replaceChildren(...[...colors.keys()].sort().map(makeRow));
}

const gpus = () => [...document.querySelectorAll("#gpus tbody th")].map(head => parseInt(head.textContent.slice(4), 10));

function showState(text) {
	if (byId("turns-state").textContent !== text) // a screen reader reads the state only when it changes
		byId("turns-state").textContent = text;
}

function describeState() {
	const idle = gpus().filter(gpu => !blocks.some(block => block.device === gpu && isTurn(block)));
	const parts = [];
	if (now - begun < EVERY_MS)
		return "The recording begins.";
	if (idle.length)
		parts.push(`No turns on GPU ${idle.join(", ")}: programs take turns where vGPUs with shares have work.`);
	if (lostAt > now - KEPT_MS)
		parts.push("Some turns of the last seconds are missing.");
	return parts.join(" ");
}

// ---- chart ------------------------------------------------------------------------------------------------

function drawBlocks(context, area, graph) {
	const lanes = gpus(), height = area.h / lanes.length;
	const paints = new Map([...colors].map(([name, index]) => [name, color(`--s${index}`)]));
	const x = at => Math.max(area.x, graph.toDomXCoord((at - now) / 1000));
	context.strokeStyle = color("--text");
	context.lineWidth = 2;
	for (const block of blocks.filter(one => isShown(one) && isTurn(one) && lanes.includes(one.device))) {
		const left = x(Math.max(block.begin, since)), top = area.y + lanes.indexOf(block.device) * height + 4;
		context.fillStyle = paints.get(block.vgpu);
		context.globalAlpha = PHASES[block.phase][1];
		context.fillRect(left, top, Math.max(0.5, x(block.end) - left), height - 8);
		context.globalAlpha = 1;
		if (block === chosen)
			context.strokeRect(left, top - 2, Math.max(1, x(block.end) - left), height - 4);
	}
}

function options(lanes) {
	const step = shownMs() / 5, label = i => i ? `${-i * step / 1000} s` : "now";
	const seconds = Array.from({length: 6}, (_, i) => ({v: -i * step / 1000, label: label(i)}));
	return {
		labels: ["seconds", "none"], interactionModel: {}, rightGap: 24, dateWindow: [-shownMs() / 1000, shownMs() / 1e6],
		valueRange: [0, lanes.length], underlayCallback: drawBlocks,
		axes: {x: {...timeAxis(), ticker: () => seconds}, y: {...laneAxis(() => lanes.map((gpu, i) =>
			({v: lanes.length - 0.5 - i, label: `GPU ${gpu}`}))), axisLabelWidth: 60, drawGrid: false}},
	};
}

function draw() {
	const lanes = gpus(), rows = [[-KEPT_MS / 1000, null], [0, null]], height = lanes.length * LANE_PX + 24;
	since = Math.max(begun, now - shownMs());
	if (!hasPlots() || !lanes.length)
		return;
	place.hidden = false;
	place.style.height = `${height}px`;
	if (!plot)
		plot = new Dygraph(place, rows, options(lanes));
	else
		plot.updateOptions({...options(lanes), file: rows});
	if (plot.size().height !== height)
		plot.resize();
}

function show() {
	draw();
	showTable();
	showState(describeState());
}

// ---- one turn ---------------------------------------------------------------------------------------------

function describe(block) {
	const launches = block.launches ? `, ${block.launches} launches` : "";
	return `${block.vgpu} ${PHASES[block.phase][0]} GPU ${block.device} for ${(block.end - block.begin).toFixed(1)} ms${launches}`;
}

function choose(block) {
	chosen = block;
	const text = block ? describe(block) : "no turn chosen";
	byId("turns-moment").textContent = block ? text : "";
	place.setAttribute("aria-valuenow", block ? ((block.begin - now) / 1000).toFixed(3) : 0);
	place.setAttribute("aria-valuetext", text);
}

function findAt(event) {
	const box = place.getBoundingClientRect(), lanes = gpus(), area = plot.getArea();
	const at = now + 1000 * plot.toDataXCoord(event.clientX - box.left);
	const gpu = lanes[Math.floor((event.clientY - box.top - area.y) / area.h * lanes.length)];
	return blocks.findLast(block => isTurn(block) && block.device === gpu && block.begin <= at && at < block.end) ?? null;
}

// The left and right keys go from turn to turn on one GPU, and the up and down keys go to another GPU.
function findNext(key) {
	const lanes = gpus(), turn = chosen ?? blocks.findLast(isTurn), step = {ArrowUp: -1, ArrowDown: 1}[key] ?? 0;
	const gpu = turn && lanes[(lanes.indexOf(turn.device) + step + lanes.length) % lanes.length];
	const own = blocks.filter(block => isShown(block) && isTurn(block) && block.device === gpu).sort((a, b) => a.begin - b.begin);
	const at = own.indexOf(turn);
	const to = {ArrowLeft: at - (chosen ? 1 : 0), ArrowRight: at + 1, Home: 0, End: own.length - 1}[key] ??
		own.findLastIndex(block => block.begin <= turn.begin);
	return own[Math.max(0, Math.min(own.length - 1, to))] ?? null;
}

place.addEventListener("mousemove", event => {
	choose(findAt(event));
	draw();
});
place.addEventListener("keydown", event => {
	if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key) || event.ctrlKey ||
		event.altKey || event.metaKey)
		return;
	event.preventDefault();
	choose(findNext(event.key));
	draw();
});
for (const end of ["blur", "mouseleave"])
	place.addEventListener(end, () => {
		choose(null);
		draw();
	});
byId("turns-length").addEventListener("change", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

// ---- following --------------------------------------------------------------------------------------------

async function update(load) {
	let hasMore = true;
	for (let i = 0; i < ANSWERS_AT_ONCE && hasMore; i++) {
		const answer = await (await load(`/api/turns?after=${next}`)).json();
		addAnswer(answer);
		hasMore = answer.more;
	}
	dropOld();
	show();
}

// Asks and draws until the element is closed. `isStill()`: whether the page is paused or hidden now.
export async function followTurns(load, isStill) {
	if (isFollowing)
		return;
	isFollowing = true;
	let wasStill = true;
	while (details.open) {
		try {
			const isStillNow = isStill();
			if (wasStill && !isStillNow)
				beginAgain();
			wasStill = isStillNow;
			if (!isStillNow)
				await update(load);
		} catch (error) {
			showState(`No turns: ${error.message}`);
		}
		await new Promise(resolve => setTimeout(resolve, EVERY_MS));
	}
	isFollowing = false;
}
