/*<![CDATA[*/
// Reads values off a chart under the pointer, from the places of its lines and the ends of its axes.
(function () {
  "use strict";
  var LEFT = 66, RIGHT = 462, TOP = 12, BOTTOM = 218;
  function axis(text) {
    var parts = text.split(" ");
    return { scale: parts[0], unit: parts[1], low: Number(parts[2]), high: Number(parts[3]) };
  }
  function value(axis, place) {
    if (axis.scale === "log") { return axis.low * Math.pow(axis.high / axis.low, place); }
    if (axis.scale === "nines") { return 1 - Math.pow(10, -axis.high * place); }
    return axis.low + place * (axis.high - axis.low);
  }
  function told(axis, number) {
    if (axis.scale === "nines") { return "p" + Number((100 * number).toPrecision(7)); }
    if (axis.unit === "share") { return (100 * number).toFixed(1) + " %"; }
    if (axis.unit === "count") { return String(Math.round(Number(number.toPrecision(3)))); }
    var units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
    for (var at = 0; at < units.length; at += 1) {
      if (number >= units[at][0]) { return Number((number / units[at][0]).toPrecision(3)) + " " + units[at][1]; }
    }
    return "0 s";
  }
  function nearest(path, x) {
    var best = null;
    path.points.forEach(function (point) {
      if (best === null || Math.abs(point[0] - x) < Math.abs(best[0] - x)) { best = point; }
    });
    return best !== null && Math.abs(best[0] - x) < 12 ? best : null;
  }
  function equip(svg) {
    var xAxis = axis(svg.getAttribute("data-x")), yAxis = axis(svg.getAttribute("data-y"));
    var figure = svg.parentNode, tip = null, cursor = null, paths = null;
    function read() {
      paths = [];
      svg.querySelectorAll("path[data-name]").forEach(function (path) {
        var numbers = (path.getAttribute("d").match(/[ML][0-9.]+ [0-9.]+/g) || []).map(function (text) {
          return text.slice(1).split(" ").map(Number);
        });
        paths.push({ name: path.getAttribute("data-name"), points: numbers });
      });
      tip = document.createElement("div");
      tip.className = "tip";
      figure.appendChild(tip);
      cursor = document.createElementNS(svg.namespaceURI, "path");
      cursor.setAttribute("class", "cursor");
      svg.appendChild(cursor);
      svg.querySelector("title").remove();
    }
    function hide() {
      if (tip) { tip.style.display = "none"; cursor.setAttribute("d", ""); }
    }
    svg.addEventListener("pointermove", function (event) {
      var box = svg.getBoundingClientRect();
      var x = (event.clientX - box.left) * 480 / box.width;
      if (x < LEFT || x > RIGHT) { hide(); return; }
      if (!tip) {
        svg.setAttribute("aria-label", svg.querySelector("title").textContent);
        read();
      }
      var lines = [told(xAxis, value(xAxis, (x - LEFT) / (RIGHT - LEFT)))];
      paths.forEach(function (path) {
        var point = nearest(path, x);
        if (point) {
          lines.push(path.name + "  " + told(yAxis, value(yAxis, (BOTTOM - point[1]) / (BOTTOM - TOP))));
        }
      });
      tip.textContent = lines.join("\n");
      tip.style.display = "block";
      tip.style.top = figure.querySelector("figcaption").offsetHeight + 12 + "px";
      var at = event.clientX - box.left;
      var room = box.width - tip.offsetWidth;
      tip.style.left = Math.max(0, at + 14 > room ? Math.min(at - tip.offsetWidth - 14, room) : at + 14) + "px";
      cursor.setAttribute("d", "M" + x.toFixed(1) + " " + TOP + "V" + BOTTOM);
    });
    svg.addEventListener("pointerleave", hide);
  }
  document.querySelectorAll("svg[data-x]").forEach(equip);
}());
/*]]>*/
