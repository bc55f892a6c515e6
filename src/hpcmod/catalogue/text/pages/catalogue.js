// The pages work without this script. It adds search and filters to the list, and buttons that copy examples.
// Content is untrusted: it is only ever set as text, never as HTML.
"use strict";

function words(text) {
    return text.toLowerCase().split(/\s+/).filter(Boolean);
}

// Numbers of the packages whose "name version" contains a word.
function packagesWith(word, names) {
    const found = new Set();
    names.forEach((name, number) => { if (name.includes(word)) found.add(number); });
    return found;
}

function setUpList() {
    const form = document.getElementById("search");
    const query = document.getElementById("query");
    const machine = document.getElementById("machine");
    const states = [...form.querySelectorAll("input[name=state]")];
    const count = document.getElementById("count");
    const none = document.getElementById("none");
    const packages = window.hpcmodPackages || {names: [], of: []};
    const names = packages.names.map((name) => name.toLowerCase());
    const rows = [...document.querySelectorAll("#containers > li")].map((element, number) => ({
        element,
        text: element.dataset.words.toLowerCase(),
        state: element.dataset.state,
        machine: element.dataset.machine,
        packages: packages.of[number] || [],
        hits: element.querySelector(".hits"),
    }));

    // Packages of a container that match; null if a word matches neither them nor the container's own text.
    function fit(row, wanted) {
        const hits = new Set();
        for (const {word, packages} of wanted) {
            const found = row.packages.filter((number) => packages.has(number));
            if (!found.length && !row.text.includes(word)) return null;
            found.forEach((number) => hits.add(number));
        }
        return hits;
    }

    function show() {
        const wanted = words(query.value).map((word) => ({word, packages: packagesWith(word, names)}));
        const shown = new Set(states.filter((box) => box.checked).map((box) => box.value));
        let total = 0;
        for (const row of rows) {
            const here = shown.has(row.state) && (!machine.value || machine.value === row.machine);
            const hits = here ? fit(row, wanted) : null;
            row.element.hidden = hits === null;
            if (hits === null) continue;
            total += 1;
            const some = [...hits].slice(0, 6).map((number) => packages.names[number]);
            row.hits.hidden = !some.length;
            row.hits.textContent = some.length ? "has " + some.join(", ") + (hits.size > 6 ? " …" : "") : "";
        }
        const all = rows.length === 1 ? "1 container" : `${rows.length} containers`;
        count.textContent = total === rows.length ? all : `${total} of ${all}`;
        none.hidden = total > 0;
    }

    function remember() {
        const parts = new URLSearchParams();
        if (query.value.trim()) parts.set("q", query.value.trim());
        if (machine.value) parts.set("machine", machine.value);
        for (const box of states) if (box.checked !== box.defaultChecked) parts.append("toggle", box.value);
        history.replaceState(null, "", "#" + parts);
    }

    function recall() {
        const parts = new URLSearchParams(location.hash.slice(1));
        query.value = parts.get("q") || "";
        machine.value = parts.get("machine") || "";
        if (machine.selectedIndex < 0) machine.value = "";
        const toggled = new Set(parts.getAll("toggle"));
        for (const box of states) box.checked = box.defaultChecked !== toggled.has(box.value);
        show();
    }

    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const kind of ["input", "change"]) form.addEventListener(kind, () => { show(); remember(); });
    window.addEventListener("hashchange", recall);
    document.addEventListener("keydown", (event) => {
        if (event.key === "/" && !event.target.closest("input, select, textarea")) {
            event.preventDefault();
            query.focus();
            query.select();
        } else if (event.key === "Escape" && event.target === query) {
            query.value = "";
            show();
            remember();
        }
    });
    recall();
}

async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch (error) { // no permission, or a browser without clipboard access for local files
        const area = document.createElement("textarea");
        area.value = text;
        area.className = "offscreen";
        document.body.append(area);
        area.select();
        const done = document.execCommand("copy");
        area.remove();
        return done;
    }
}

function addCopyButtons() {
    for (const figure of document.querySelectorAll("figure.example")) {
        const title = figure.querySelector("figcaption").textContent;
        const button = document.createElement("button");
        const said = document.createElement("span");
        button.type = "button";
        button.className = "copy";
        button.textContent = "Copy";
        button.setAttribute("aria-label", "Copy: " + title);
        said.className = "said";
        said.setAttribute("role", "status");
        button.addEventListener("click", async () => {
            const done = await copy(figure.querySelector("code").textContent);
            said.textContent = done ? "Copied" : "Select the text and copy it yourself";
            setTimeout(() => { said.textContent = ""; }, 4000);
        });
        figure.querySelector("figcaption").append(said, button);
    }
}

function setUpPackages() {
    const input = document.getElementById("narrow");
    const told = document.getElementById("narrowed");
    const items = [...document.querySelectorAll("#package-list > li")];
    input.closest("p").hidden = false;
    input.addEventListener("input", () => {
        const wanted = words(input.value);
        let total = 0;
        for (const item of items) {
            const text = item.textContent.toLowerCase();
            item.hidden = !wanted.every((word) => text.includes(word));
            if (!item.hidden) total += 1;
        }
        told.textContent = wanted.length ? `${total} of ${items.length}` : "";
    });
}

if (document.getElementById("search")) setUpList();
if (document.getElementById("narrow")) setUpPackages();
addCopyButtons();
