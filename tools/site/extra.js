// The contents of a page, buttons that copy code, and search: without anything from elsewhere.
(function () {
  "use strict";

  function element(name, attributes, text) {
    var e = document.createElement(name);
    Object.keys(attributes || {}).forEach(function (a) { e.setAttribute(a, attributes[a]); });
    if (text) e.textContent = text;
    return e;
  }

  // ---- contents of the page ----
  function anchor(heading) {
    if (heading.id) return heading.id;
    var section = heading.closest(".section, section, [id]");
    return section && section.id !== "main" ? section.id : "";
  }

  function contents() {
    var toc = document.getElementById("toc");
    if (!toc) return;
    var list = element("ul", { "class": "toc-list" });
    document.querySelectorAll("main h2, main h3").forEach(function (h) {
      var id = anchor(h);
      if (!id || h.hasAttribute("data-toc-skip")) return;
      var item = element("li", { "class": "toc-" + h.tagName.toLowerCase() });
      var text = h.cloneNode(true);
      text.querySelectorAll("a.anchor").forEach(function (a) { a.remove(); });
      item.append(element("a", { href: "#" + id }, text.textContent.trim()));
      list.append(item);
    });
    if (list.children.length > 1) toc.append(list);
    else toc.remove();
  }

  // ---- copy ----
  function copyButtons() {
    if (!navigator.clipboard) return;
    document.querySelectorAll("div.sourceCode").forEach(function (block) {
      var button = element("button", { type: "button", "class": "copy", "aria-label": "Copy this code" }, "Copy");
      button.addEventListener("click", function () {
        var code = block.querySelector("pre").textContent.replace(/^#>.*\n?/gm, "");
        navigator.clipboard.writeText(code).then(
          function () { button.textContent = "Copied"; },
          function () { button.textContent = "Not copied"; }
        );
        setTimeout(function () { button.textContent = "Copy"; }, 2000);
      });
      block.append(button);
    });
  }

  // ---- search ----
  // How well a section fits all words: in the heading more than in the text.
  function fits(section, words) {
    var sum = 0;
    for (var i = 0; i < words.length; i++) {
      var w = words[i];
      var points = (section.title.includes(w) ? 5 : 0) + (section.what.includes(w) ? 4 : 0) +
        (section.text.includes(w) ? 1 : 0);
      if (!points) return 0;
      sum += points;
    }
    return sum;
  }

  function find(query) {
    var words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    var ofPage = {}; // a page takes no more than two places
    return window.searchIndex
      .map(function (s) { return { section: s, points: fits(s.lower, words) }; })
      .filter(function (r) { return r.points > 0; })
      .sort(function (a, b) { return b.points - a.points; })
      .map(function (r) { return r.section; })
      .filter(function (s) { return (ofPage[s.path] = (ofPage[s.path] || 0) + 1) <= 2; })
      .slice(0, 12);
  }

  function search() {
    var input = document.getElementById("search-input");
    if (!input) return;
    // of the site: where its index is
    var root = input.getAttribute("data-search-index").replace(/search\.json$/, "");
    input.setAttribute("aria-label", "Search this site");
    var results = element("ul", { "class": "search-results", "aria-label": "Results", "aria-live": "polite" });
    results.hidden = true;
    input.form.append(results);
    input.form.addEventListener("submit", function (e) {
      e.preventDefault();
      var first = results.querySelector("a");
      if (first) window.location.href = first.href;
    });

    function show() {
      results.textContent = "";
      results.hidden = !input.value.trim();
      if (results.hidden || !window.searchIndex) return;
      var found = find(input.value);
      if (!found.length) results.append(element("li", {}, "Nothing was found."));
      found.forEach(function (s) {
        var a = element("a", { href: root + s.path.replace(/^\//, "") + (s.id ? "#" + s.id : "") });
        a.append(element("strong", {}, s.title || ""));
        if (s.what && s.what !== s.title) a.append(element("span", {}, s.what));
        var item = element("li", {});
        item.append(a);
        results.append(item);
      });
    }

    function load() {
      input.removeEventListener("focus", load);
      var script = element("script", { src: root + "search.js" });
      script.onload = function () {
        window.searchIndex.forEach(function (s) {
          s.lower = {
            title: (s.title || "").toLowerCase(), what: (s.what || "").toLowerCase(),
            text: ((s.text || "") + " " + (s.code || "")).toLowerCase()
          };
        });
        show();
      };
      document.head.append(script);
    }

    input.addEventListener("focus", load);
    input.addEventListener("input", show);
    document.addEventListener("keydown", function (e) {
      if (e.key === "Escape") results.hidden = true;
      if (e.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
      e.preventDefault();
      input.focus();
    });
    document.addEventListener("click", function (e) {
      if (!input.form.contains(e.target)) results.hidden = true;
    });
  }

  function ready() {
    contents();
    copyButtons();
    search();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready);
  else ready();
})();
