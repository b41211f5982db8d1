// Follows the figures: takes the tables from a fresh copy of the page, and gives the charts what they need.
"use strict";
import {drawCharts, hasPlots, removeCharts, setHistory, time} from "/charts.js";
import {drawTimeline, setEvents} from "/timeline.js";

const EVERY_MS = 2000, HISTORY_TICKS = 5, PATIENCE_MS = 10000, EVENTS_MOST = 200;
const byId = id => document.getElementById(id);
const live = byId("live"), pause = byId("pause");
let isPaused = false, ticks = 1, nextEvent = 0, lastGood = Date.now(), wake = () => {};

// ---- tables -----------------------------------------------------------------------------------------------

// A narrow screen shows rows as blocks. Some browsers then take tables for text, unless their parts have roles.
function addRoles(root) {
	const roles = {table: "table", "thead, tbody": "rowgroup", tr: "row", td: "cell", "thead th": "columnheader",
		"tbody th": "rowheader"};
	for (const [selector, role] of Object.entries(roles))
		root.querySelectorAll(selector).forEach(element => element.setAttribute("role", role));
}

// Makes the rows of a table those of a fresh one, and leaves rows that are the same alone, so that a selection stays.
function syncRows(old, fresh) {
	const rows = [...fresh.rows];
	rows.forEach((row, i) => {
		if (!old.rows[i])
			old.append(row);
		else if (!old.rows[i].isEqualNode(row))
			old.rows[i].replaceWith(row);
	});
	while (old.rows.length > rows.length)
		old.rows[old.rows.length - 1].remove();
}

// Makes the notes below the tables of an element those of a fresh one.
function syncNotes(old, fresh) {
	const notesOf = root => [...root.querySelectorAll(":scope > .note")];
	const oldNotes = notesOf(old), notes = notesOf(fresh);
	if (oldNotes.length === notes.length && oldNotes.every((note, i) => note.isEqualNode(notes[i])))
		return;
	oldNotes.forEach(note => note.remove());
	old.append(...notes);
}

function sync(old, fresh) {
	if (!old || !fresh || old.isEqualNode(fresh))
		return;
	const oldTable = old.querySelector("table"), freshTable = fresh.querySelector("table");
	if (!oldTable || !freshTable || !oldTable.tHead.isEqualNode(freshTable.tHead)) {
		old.replaceChildren(...fresh.childNodes);
		return;
	}
	syncRows(oldTable.tBodies[0], freshTable.tBodies[0]);
	syncNotes(old, fresh);
}

// The tables below the charts; if there are other GPUs now, the charts are made again.
function syncHour(old, fresh) {
	const places = root => [...root.querySelectorAll(".chart")].map(chart => chart.dataset.device).join();
	if (places(old) === places(fresh) && places(old)) {
		const tables = fresh.querySelectorAll(".scroll");
		old.querySelectorAll(".scroll").forEach((table, i) => sync(table, tables[i]));
		syncNotes(old, fresh);
		return;
	}
	removeCharts();
	old.replaceChildren(...fresh.childNodes);
	closeTables();
	drawCharts();
}

function closeTables() {
	if (hasPlots())
		document.querySelectorAll("#hour details").forEach(details => { details.open = false; });
}

// The address of the page may have a password in it, and fetch() refuses an address with one.
async function load(path) {
	const answer = await fetch(location.origin + path, {cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS)});
	if (!answer.ok)
		throw new Error(`the exporter answers with ${answer.status}`);
	return answer;
}

async function updateTables() {
	const text = await (await load(location.pathname)).text();
	const fresh = new DOMParser().parseFromString(text, "text/html");
	addRoles(fresh);
	for (const id of ["problem", "gpus", "vgpus", "events"])
		sync(byId(id), fresh.getElementById(id));
	syncHour(byId("hour"), fresh.getElementById("hour"));
	showKinds();
	return fresh;
}

// ---- events -----------------------------------------------------------------------------------------------

function showKinds() {
	const rows = [...document.querySelectorAll("#events tbody tr")], kind = byId("kind");
	const known = new Set([...kind.options].map(option => option.value));
	for (const name of [...new Set(rows.map(row => row.dataset.kind))].sort())
		if (!known.has(name))
			kind.add(new Option(name, name));
	rows.forEach(row => { row.hidden = kind.value !== "" && row.dataset.kind !== kind.value; });
	byId("filter").hidden = !rows.length;
	const count = rows.filter(row => !row.hidden).length, text = kind.value ? `${count} of ${rows.length} events` : "";
	if (byId("shown").textContent !== text)
		byId("shown").textContent = text;
}

// Loads the events that are newer than those of the last call, if the page has new ones.
async function updateEvents(root) {
	const next = Number(root.getElementById("events").dataset.next);
	if (!next || next === nextEvent)
		return;
	const isContinued = nextEvent > 0 && next > nextEvent;
	const answer = await (await load(`/api/events?most=${EVENTS_MOST}&after=${isContinued ? nextEvent : 0}`)).json();
	nextEvent = answer.next;
	setEvents(answer.events, isContinued && !answer.lost);
}

async function updateHistory() {
	setHistory(await (await load("/api/history?figures=charged,gpu_ns")).json());
	drawTimeline();
}

// ---- following --------------------------------------------------------------------------------------------

// A screen reader reads the state only when it changes.
function showState(isGood, text) {
	if (live.dataset.text !== text) {
		live.dataset.text = text;
		live.className = isGood ? "ok" : "bad";
		live.textContent = text;
	}
}

async function update() {
	const fresh = await updateTables();
	if (fresh.querySelector(".problem"))
		throw new Error("no figures");
	await updateEvents(fresh);
	if (ticks++ % HISTORY_TICKS === 0)
		await updateHistory();
}

async function follow() {
	for (;;) {
		await new Promise(resolve => {
			wake = resolve;
			setTimeout(resolve, EVERY_MS);
		});
		if (isPaused || document.hidden)
			continue;
		try {
			await update();
			lastGood = Date.now();
			if (!isPaused)
				showState(true, "live");
		} catch (error) {
			showState(false, `not live since ${time(lastGood, true)}: ${error.message}`);
		}
	}
}

// The exporter records single turns only while a page asks for them, so their script is loaded when they are opened.
async function openTurns() {
	try {
		if (byId("turns").open)
			(await import("/turns.js")).followTurns(load, () => isPaused || document.hidden);
	} catch (error) {
		byId("turns-state").textContent = `No turns: ${error.message}`;
	}
}

byId("turns").hidden = false;
byId("turns").addEventListener("toggle", openTurns);
pause.hidden = false;
pause.addEventListener("click", () => {
	isPaused = !isPaused;
	pause.setAttribute("aria-pressed", isPaused);
	showState(!isPaused, isPaused ? "paused" : "live");
	wake();
});
document.addEventListener("visibilitychange", () => wake());
byId("kind").addEventListener("change", showKinds);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
	drawCharts();
	drawTimeline();
});
addRoles(document);
closeTables();
showKinds();
showState(!document.querySelector(".problem"), document.querySelector(".problem") ? "no figures" : "live");
Promise.allSettled([updateHistory(), updateEvents(document)]).then(() => {
	document.documentElement.dataset.ready = Math.round(performance.now());
	follow();
});
