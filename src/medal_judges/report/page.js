(function () {
  "use strict";
  var root = document.documentElement;

  // Theme: ?theme=dark in the address, then the stored choice, then what the system says.
  function stored() {
    try { return localStorage.getItem("theme"); } catch (error) { return null; }
  }
  function store(value) {
    try { localStorage.setItem("theme", value); } catch (error) { /* private window */ }
  }
  var asked = new URLSearchParams(location.search).get("theme") || stored();
  if (asked === "dark" || asked === "light") root.dataset.theme = asked;
  var button = document.getElementById("theme");
  function isDark() {
    return root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function name() {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", "Switch to " + button.textContent.toLowerCase() + " colours");
  }
  button.hidden = false;
  name();
  button.addEventListener("click", function () {
    root.dataset.theme = isDark() ? "light" : "dark";
    store(root.dataset.theme);
    name();
  });

  // Sorting: within each group of rows; headings stay first, ceilings and empty cells last.
  function key(row, column) {
    var cell = row.cells[column];
    if (!cell) return null;
    if (!("sort" in cell.dataset)) return cell.textContent.trim().toLowerCase();
    return cell.dataset.sort === "" ? null : Number(cell.dataset.sort);
  }
  function compare(a, b) {
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  }
  function sort(table, column, sign) {
    Array.prototype.forEach.call(table.tBodies, function (body) {
      var free = Array.prototype.filter.call(body.rows, function (row) { return !row.dataset.pin; });
      var last = body.querySelectorAll('tr[data-pin="last"]');
      free.sort(function (a, b) {
        var x = key(a, column), y = key(b, column);
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * compare(x, y);
      });
      free.forEach(function (row) { body.appendChild(row); });
      last.forEach(function (row) { body.appendChild(row); });
    });
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = table.tHead.rows[0].cells;
    Array.prototype.forEach.call(heads, function (head, column) {
      var press = document.createElement("button");
      press.type = "button";
      press.textContent = head.textContent;
      head.textContent = "";
      head.appendChild(press);
      press.addEventListener("click", function () {
        // Figures fall first (best on top), names rise first.
        var falling = column > 0;
        var now = head.getAttribute("aria-sort");
        if (now) falling = now === "ascending";
        Array.prototype.forEach.call(heads, function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        sort(table, column, falling ? -1 : 1);
      });
    });
  });

  // What is wider than the page fades at its end until it is scrolled there.
  var wide = new ResizeObserver(function (seen) { seen.forEach(function (each) { cue(each.target); }); });
  function cue(box) {
    var hidden = box.scrollWidth - box.clientWidth;
    box.classList.toggle("scrolls", hidden > 1);
    box.classList.toggle("fading", hidden - Math.abs(box.scrollLeft) > 1);
  }
  document.querySelectorAll(".scroll").forEach(function (box) {
    wide.observe(box);
    box.addEventListener("scroll", function () { cue(box); }, { passive: true });
  });

  // A tap says what the mouse shows on hover: why there is a dash, what a cell means.
  var toast = document.getElementById("toast");
  document.addEventListener("click", function (event) {
    var mark = event.target.closest(".undef, td[title]");
    toast.hidden = !mark;
    toast.textContent = mark ? mark.title : "";
  });

  // A search hides the folds of a section whose text lacks the words.
  document.querySelectorAll("input[data-filter]").forEach(function (input) {
    input.closest(".controls").hidden = false;
    input.addEventListener("input", function () {
      var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      document.querySelectorAll("#" + input.dataset.filter + " > details > details").forEach(function (fold) {
        var text = fold.textContent.toLowerCase();
        fold.hidden = !words.every(function (word) { return text.includes(word); });
      });
      document.querySelectorAll("#" + input.dataset.filter + " > details").forEach(function (group) {
        group.hidden = !group.querySelector(":scope > details:not([hidden])");
      });
    });
  });

  // On paper nothing can be unfolded.
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (fold) { fold.open = true; });
  });
})();
