
(function () {
  "use strict";
  // The list of conversations: an index that is read at once, texts in gzipped parts that are
  // unpacked when one is opened or searched. All text goes in as text, never as HTML.
  var place = document.getElementById("conversation-list");
  if (!place) return;
  var index = JSON.parse(document.getElementById("conversation-index").textContent);
  var parts = null, unpacked = [];
  var STEP = 25, shown = STEP, total = index.id.length, found = [];
  var texts = null; // lower-case text of each conversation, made by the first search
  var head = index.headline;
  var scale = {};
  index.dimensions.forEach(function (d) { scale[d.name] = d; });
  var issues = index.dimensions.filter(function (d) { return d.kind === "binary"; });

  function make(name, className, text) {
    var made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function number(value) {
    var text = value.toFixed(2);
    if (Number(text) === 0) text = text.replace("-", "");
    return text.replace("-", "\u2212");
  }

  // Unpacking: a part holds index.chunk conversations.
  function bytes(part) {
    var raw = atob(part), made = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) made[i] = raw.charCodeAt(i);
    return made;
  }
  function unpack(k) {
    if (!unpacked[k]) {
      if (!parts) parts = JSON.parse(document.getElementById("conversation-parts").textContent);
      if (typeof DecompressionStream === "undefined") {
        unpacked[k] = Promise.reject(new Error("This browser is too old to unpack the texts."));
      } else {
        var stream = new Blob([bytes(parts[k])]).stream().pipeThrough(new DecompressionStream("gzip"));
        unpacked[k] = new Response(stream).json();
      }
    }
    return unpacked[k];
  }
  function detail(i) {
    return unpack(Math.floor(i / index.chunk)).then(function (part) { return part[i % index.chunk]; });
  }

  // Controls.
  var controls = make("form", "controls");
  controls.addEventListener("submit", function (event) { event.preventDefault(); });
  function labelled(text, input) {
    var label = make("label", "", text + " ");
    label.appendChild(input);
    controls.appendChild(label);
    return input;
  }
  function select(text, options) {
    var made = make("select");
    options.forEach(function (each) {
      var option = make("option", "", each[1]);
      option.value = each[0];
      made.appendChild(option);
    });
    made.addEventListener("change", refresh);
    return labelled(text, made);
  }
  var search = make("input");
  search.type = "search";
  search.placeholder = "id, text or reason";
  labelled("Search", search);
  var waiting = null;
  search.addEventListener("input", function () {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 250);
  });
  var filters = Object.keys(index.columns).map(function (name) {
    var column = index.columns[name], counts = {};
    column.codes.forEach(function (code) { counts[code] = (counts[code] || 0) + 1; });
    var options = column.names.map(function (each, code) { return [code, each + " (" + (counts[code] || 0) + ")"]; });
    if (counts[-1]) options.push([-1, "none (" + counts[-1] + ")"]);
    return { codes: column.codes, input: select(name, [["", "all"]].concat(options)) };
  });
  var issue = issues.length && select("Issue", [["", "all"], ["*", "any"]].concat(issues.map(function (d) { return [d.name, d.name]; })));
  var graded = index.dimensions.filter(function (d) { return d.kind !== "binary"; });
  var dimension = graded.length > 1 && select("Score", graded.map(function (d) { return [d.name, d.name]; }));
  function ranged() { return dimension ? dimension.value : head; }
  function end(text) {
    var input = make("input");
    input.type = "number";
    input.step = "any";
    input.addEventListener("input", refresh);
    return labelled(text, input);
  }
  var least = head && end(dimension ? "from" : head + " from"), most = head && end("to");
  var orders = [["worst", "worst first"], ["best", "best first"]];
  if (index.uncertainty.some(function (v) { return v !== null; })) orders.push(["uncertainty", "least certain first"]);
  issues.forEach(function (d) { orders.push(["=" + d.name, d.name + " first"]); });
  if (index.time.length) orders.push(["newest", "newest first"], ["oldest", "oldest first"]);
  if (index.length.some(Boolean)) orders.push(["length", "longest first"]);
  var order = select("Sort", orders);
  place.appendChild(controls);
  var status = make("p", "count");
  status.setAttribute("role", "status");
  place.appendChild(status);
  var list = make("div", "conversations");
  place.appendChild(list);
  var more = make("button", "more", "Show more");
  more.type = "button";
  more.addEventListener("click", function () { shown += STEP; draw(shown - STEP); });
  place.appendChild(more);

  function withText() {
    if (texts) return Promise.resolve(texts);
    status.textContent = "Reading the texts \u2026";
    var all = [];
    for (var k = 0; k * index.chunk < total; k++) all.push(unpack(k));
    return Promise.all(all).then(function (read) {
      texts = [];
      read.forEach(function (part) {
        part.forEach(function (each) {
          var said = each.turns.map(function (turn) { return turn[1]; });
          (each.reasons || []).forEach(function (reason) { said.push(reason[1]); });
          texts.push(said.join("\n").toLowerCase());
        });
      });
      return texts;
    });
  }
  function bound(input) { return input && input.value !== "" ? Number(input.value) : null; }
  function keep(i, words) {
    for (var f = 0; f < filters.length; f++) {
      if (filters[f].input.value !== "" && filters[f].codes[i] !== Number(filters[f].input.value)) return false;
    }
    if (issue && issue.value) {
      var names = issue.value === "*" ? issues.filter(function (d) { return d.good === "low"; }).map(function (d) { return d.name; }) : [issue.value];
      if (!names.some(function (name) { return index.scores[name][i] !== null && index.scores[name][i] >= 0.5; })) return false;
    }
    var low = bound(least), high = bound(most);
    if (low !== null || high !== null) {
      var value = index.scores[ranged()][i];
      if (value === null || (low !== null && value < low) || (high !== null && value > high)) return false;
    }
    return words.every(function (word) { return index.id[i].toLowerCase().indexOf(word) >= 0 || texts[i].indexOf(word) >= 0; });
  }
  function by(values, sign) {
    found.sort(function (a, b) {
      var x = values[a], y = values[b];
      if (x === null || y === null || x === "" || y === "") return (x === null || x === "") - (y === null || y === "") || a - b;
      return (x < y ? -sign : x > y ? sign : 0) || a - b;
    });
  }
  function sorted() {
    var kind = order.value;
    if (kind === "best") found.reverse();
    else if (kind === "newest") by(index.time, -1);
    else if (kind === "oldest") by(index.time, 1);
    else if (kind === "length") by(index.length, -1);
    else if (kind === "uncertainty") by(index.uncertainty, -1);
    else if (kind[0] === "=") by(index.scores[kind.slice(1)], -1);
  }
  var asked = 0;
  function refresh() {
    var mine = ++asked;
    var words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    (words.length ? withText() : Promise.resolve()).then(function () {
      if (mine !== asked) return;
      found = [];
      for (var i = 0; i < total; i++) if (keep(i, words)) found.push(i);
      sorted();
      shown = STEP;
      list.textContent = "";
      draw(0);
    }, function (error) { status.textContent = error.message; });
  }
  function draw(from) {
    var unit = index.unit + (found.length === 1 ? "" : "s");
    status.textContent = found.length.toLocaleString("en") + " of " + total.toLocaleString("en") + " " + unit;
    for (var k = from; k < Math.min(shown, found.length); k++) list.appendChild(entry(found[k]));
    more.hidden = shown >= found.length;
  }

  function entry(i) {
    var fold = make("details", "conversation"), line = make("summary");
    if (head) {
      var value = index.scores[head][i];
      line.appendChild(make("b", "mark", value === null ? "\u2013" : number(value)));
    }
    var name = make("bdi", "id", index.id[i] + (index.turn[i] === null ? "" : " \u00b7 turn " + index.turn[i]));
    line.appendChild(name);
    issues.forEach(function (d) {
      var value = index.scores[d.name][i];
      if (value !== null && (d.good === "low") === (value >= 0.5)) line.appendChild(make("span", "badge", d.good === "low" ? d.name : "not " + d.name));
    });
    Object.keys(index.columns).forEach(function (key) {
      var code = index.columns[key].codes[i];
      if (code >= 0) line.appendChild(make("bdi", "chip", index.columns[key].names[code]));
    });
    if (index.time.length && index.time[i]) line.appendChild(make("span", "chip", index.time[i]));
    var words = make("span", "snippet", index.snippet[i]);
    words.dir = "auto";
    line.appendChild(words);
    fold.appendChild(line);
    fold.addEventListener("toggle", function () {
      if (!fold.open || fold.dataset.filled) return;
      fold.dataset.filled = "1";
      detail(i).then(function (found) { fill(fold, i, found); }, function (error) {
        fold.appendChild(make("p", "note", error.message));
      });
    });
    return fold;
  }
  function fill(fold, i, given) {
    var scores = make("p", "count");
    scores.textContent = index.dimensions.map(function (d) {
      var value = index.scores[d.name][i], ends = given.intervals[d.name] || [null], rank = index.percentile[i];
      if (value === null) return d.name + " \u2013";
      if (d.kind === "binary") return d.name + " " + Math.round(100 * value) + "%";
      var text = d.name + " " + number(value);
      if (ends[0] !== null) text += " [" + number(ends[0]) + ", " + number(ends[1]) + "]";
      return d.name === head && rank !== null ? text + ", percentile " + Math.round(rank) : text;
    }).join(" \u00b7 ");
    fold.appendChild(scores);
    (given.reasons || []).forEach(function (reason) {
      var said = make("p", "reason");
      if (reason[0]) said.appendChild(make("b", "", reason[0] + ": "));
      said.appendChild(make("span", "", reason[1]));
      said.dir = "auto";
      fold.appendChild(said);
    });
    var told = given.contributions || {}, names = Object.keys(told).filter(function (name) {
      return told[name][1].length === given.turns.length;
    });
    var chat = make("div", "chat");
    if (names.length) {
      var choice = make("select");
      names.forEach(function (name) { choice.appendChild(make("option", "", name)); });
      if (names.indexOf(head) >= 0) choice.value = head;
      var label = make("label", "count", "Turns coloured by what they contributed to ");
      label.appendChild(choice);
      fold.appendChild(label);
      var how = fold.appendChild(make("details", "how"));
      how.appendChild(make("summary", "", "How to read this"));
      var account = how.appendChild(make("p", "count"));
      var show = function () {
        account.textContent = told[choice.value][0];
        colour(chat, told[choice.value][1]);
      };
      choice.addEventListener("change", show);
    }
    if (!given.turns.length) fold.appendChild(make("p", "note", "The text is not here: give the chats with --chats."));
    given.turns.forEach(function (turn, k) {
      var judged = index.turn[i] === k, role = turn[0] ? "assistant" : "user";
      var bubble = make("div", "turn " + role + (judged ? " judged" : ""));
      var who = make("p", "who", k + " \u00b7 " + role + (judged ? " \u00b7 judged" : ""));
      who.appendChild(make("span", "contribution"));
      bubble.appendChild(who);
      var said = make("p", "said");
      said.dir = "auto";
      if (turn[1].trim()) said.textContent = turn[1];
      else said.appendChild(make("i", "empty", "(empty turn)"));
      bubble.appendChild(said);
      chat.appendChild(bubble);
    });
    if (given.cut) fold.appendChild(make("p", "note", given.cut.toLocaleString("en") + " characters are left out here."));
    fold.appendChild(chat);
    if (show) show();
  }
  function colour(chat, moves) {
    var largest = Math.max.apply(null, moves.map(Math.abs));
    Array.prototype.forEach.call(chat.children, function (bubble, k) {
      bubble.classList.toggle("pos", moves[k] >= 0);
      bubble.classList.toggle("neg", moves[k] < 0);
      bubble.style.setProperty("--s", (largest ? Math.round(100 * Math.abs(moves[k]) / largest) : 0) + "%");
      bubble.querySelector(".contribution").textContent = (moves[k] > 0 ? "+" : "") + number(moves[k]);
    });
  }
  refresh();
  setTimeout(function () {  // the worst two are read without a click
    if (index.length.some(Boolean)) Array.prototype.slice.call(list.children, 0, 2).forEach(function (fold) { fold.open = true; });
  }, 0);
})();
