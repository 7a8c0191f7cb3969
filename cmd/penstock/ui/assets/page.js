"use strict";

// The script loads live pages again at an interval, replaces the parts that change, and draws curves over the time for which the page
// is open. The server escapes all texts. Curves are kept in this page alone.

const causes = ["trainer", "storage", "memory", "stream", "slot", "works"];
const dashes = [[], [8, 4], [2, 3], [8, 3, 2, 3], [4, 4], [1, 2]];
const points = 900; // at most so many values of a curve are kept
const patience = 10000; // milliseconds after which a request for a page ends
const charts = new Map(); // by the id of its element: {data, plot}; plot is undefined while there is no line to draw
let before = null; // the counts of streams and their time, of the last answer

// colors returns the colors of curves, which are those of the pictures.
function colors() {
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	return dark ? ["#f0883e", "#4493f8", "#ab7df8", "#79c0ff", "#e3b341", "#8b949e"] : ["#bc4c00", "#0969da", "#8250df", "#57a7f5", "#9a6700", "#59636e"];
}

// short returns a number in few characters.
function short(value, unit) {
	if (value === null || value === undefined) return "–";
	if (unit === "%") return value.toFixed(0) + " %";
	const step = unit === "B" ? 1024 : 1000;
	const units = unit === "B" ? ["B", "KiB", "MiB", "GiB", "TiB"] : ["", "k", "M", "G", "T"];
	let at = 0;
	for (; Math.abs(value) >= step && at < units.length - 1; at++) value /= step;
	return (at === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)) + (units[at] && " " + units[at]);
}

// clock returns the time of the day of a number of seconds.
function clock(seconds) {
	return new Date(1000 * seconds).toTimeString().slice(0, 8);
}

// heightOf returns the height of a chart without its legend, which may have several lines.
function heightOf(place) {
	return parseFloat(getComputedStyle(place).minHeight) - 30;
}

// plot returns a chart in an element. It replaces the note that there is none yet.
function plot(place, names, unit, data) {
	place.replaceChildren();
	const ink = getComputedStyle(document.body).color;
	const grid = { stroke: getComputedStyle(document.documentElement).getPropertyValue("--line"), width: 1 };
	const axis = { stroke: ink, grid: grid, ticks: grid };
	const shades = colors();
	return new uPlot({
		width: place.clientWidth, height: heightOf(place),
		cursor: { drag: { x: true, y: false } },
		scales: { y: { range: (_, low, high) => [0, unit === "%" ? 100 : Math.max(1, (high || 0) * 1.05)] } },
		axes: [{ ...axis, space: 70, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 70, values: (_, ticks) => ticks.map((v) => short(v, unit)) }],
		series: [{ label: "time", value: (_, v) => (v ? clock(v) : "–") }, ...names.map((name, i) => ({
			label: name, stroke: shades[i % shades.length], dash: dashes[i % dashes.length], width: 1.6,
			points: { show: false }, value: (_, v) => short(v, unit),
		}))],
	}, data, place);
}

// draw adds values to the curves of an element. They are drawn once one of them has two values, between which there is a line.
function draw(id, names, unit, values) {
	const place = document.getElementById(id);
	if (!place || typeof uPlot === "undefined") return;
	if (!charts.has(id)) charts.set(id, { data: [[], ...names.map(() => [])] });
	const chart = charts.get(id);
	chart.data[0].push(Date.now() / 1000);
	values.forEach((v, i) => chart.data[i + 1].push(v));
	if (chart.data[0].length > points) chart.data.forEach((one) => one.shift());
	const hasLine = (one) => one.filter((v) => v !== null).length > 1;
	if (!chart.plot && chart.data.slice(1).some(hasLine)) chart.plot = plot(place, names, unit, chart.data);
	chart.plot?.setData(chart.data);
}

// changes returns, for each stream that both answers have, how much its counts have grown.
function changes(then, now) {
	const out = new Map();
	for (const [id, counts] of Object.entries(now)) {
		if (then[id]) out.set(id, counts.map((n, i) => n - then[id][i]));
	}
	return out;
}

// drawStreams draws the curves of streams, and fills the column Rows/s.
function drawStreams() {
	const place = document.getElementById("counts");
	if (!place) return;
	const now = { at: performance.now(), counts: JSON.parse(place.dataset.counts) };
	if (before) {
		const seconds = (now.at - before.at) / 1000;
		const grown = changes(before.counts, now.counts);
		let rows = 0, open = 0;
		const waited = [0, 0, 0, 0, 0];
		for (const one of grown.values()) {
			open += one[0];
			rows += one[1];
			waited.forEach((_, i) => { waited[i] += one[3 + i]; });
		}
		const shares = waited.map((ms) => (open > 0 ? Math.min(100, 100 * ms / open) : null));
		shares.push(open > 0 ? Math.max(0, 100 - shares.reduce((a, b) => a + b, 0)) : null);
		draw("curve-rows", ["rows/s"], "", [rows / seconds]);
		draw("curve-causes", causes, "%", shares);
		for (const row of document.querySelectorAll("tr[data-stream]")) {
			const one = grown.get(row.dataset.stream);
			row.querySelector(".rate").textContent = one && one[0] > 0 ? short(1000 * one[1] / one[0], "") : "–";
		}
	}
	before = now;
}

// drawGauges draws the curves whose values the page has.
function drawGauges() {
	for (const one of document.querySelectorAll("[data-gauges]")) {
		if (!one.dataset.gauges) continue;
		const gauges = JSON.parse(one.dataset.gauges);
		draw(one.dataset.curve, gauges.map((g) => g.name), "B", gauges.map((g) => g.value));
	}
}

function drawAll() {
	drawStreams();
	drawGauges();
}

// say shows the state of the connection.
function say(text) {
	const state = document.getElementById("state");
	if (state.textContent !== text) state.textContent = text;
}

// replaceParts replaces the parts that change by those of an answer. A link that has the focus keeps it.
function replaceParts(answer) {
	const link = document.activeElement?.closest("[data-live] a[href]");
	const row = link?.closest("tr[data-stream]")?.dataset.stream;
	for (const part of document.querySelectorAll("[data-live]")) {
		const other = answer.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
		if (!other || part.outerHTML === other.outerHTML) continue;
		for (const name of part.getAttributeNames()) if (!other.hasAttribute(name)) part.removeAttribute(name);
		for (const name of other.getAttributeNames()) part.setAttribute(name, other.getAttribute(name));
		part.replaceChildren(...other.childNodes);
	}
	if (link && !link.isConnected) {
		const place = row ? `tr[data-stream="${CSS.escape(row)}"] ` : "[data-live] ";
		document.querySelector(`${place}a[href="${CSS.escape(link.getAttribute("href"))}"]`)?.focus({ preventScroll: true });
	}
}

// load loads the page again. It returns whether to go on.
async function load() {
	const url = new URL(location.href);
	url.searchParams.set("part", "1");
	try {
		const answer = await fetch(url, { cache: "no-store", redirect: "error", signal: AbortSignal.timeout(patience) });
		if (answer.status === 401) {
			say("You are signed out: open the page again.");
			return false;
		}
		const text = await answer.text();
		if (!answer.ok) {
			say("The page cannot be loaded: status " + answer.status);
			return true;
		}
		replaceParts(new DOMParser().parseFromString(text, "text/html"));
		drawAll();
		say("live");
	} catch {
		say("penstock ui does not answer.");
	}
	return true;
}

// run loads the page again at an interval while it is visible.
async function run(every) {
	for (;;) {
		await new Promise((done) => setTimeout(done, every));
		if (document.visibilityState === "visible") {
			if (!(await load())) return;
		} else {
			before = null; // rates are those of an interval while the page is visible
		}
	}
}

// addCopying shows the buttons that copy a text.
function addCopying() {
	if (!navigator.clipboard) return;
	for (const button of document.querySelectorAll("[data-copy]")) {
		button.hidden = false;
		button.addEventListener("click", async () => {
			try {
				await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
				button.textContent = "Copied";
			} catch {
				button.textContent = "Select the text, and copy it";
			}
		});
	}
}

function start() {
	addCopying();
	addEventListener("resize", () => {
		for (const [id, chart] of charts) {
			const place = document.getElementById(id);
			if (place) chart.plot?.setSize({ width: place.clientWidth, height: heightOf(place) });
		}
	});
	drawAll();
	const every = Number(document.querySelector("main").dataset.every || 0);
	if (every > 0) run(every);
}

start();
