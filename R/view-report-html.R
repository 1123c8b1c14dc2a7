# Pieces of HTML and SVG for cluster_report(). Colours are variables of the page's style, so that
# pictures follow it in the dark.

# Characters that are special to HTML are escaped; control characters are none of its characters.
html_text <- function(x) {
  x <- enc2utf8(as.character(x))
  x[is.na(x)] <- ""
  bad <- !validUTF8(x)
  x[bad] <- iconv(x[bad], "UTF-8", "UTF-8", sub = "?")
  x <- gsub("[\001-\010\013\014\016-\037\177]", " ", x)
  x <- gsub("&", "&amp;", x, fixed = TRUE)
  x <- gsub("<", "&lt;", x, fixed = TRUE)
  x <- gsub(">", "&gt;", x, fixed = TRUE)
  gsub("\"", "&quot;", x, fixed = TRUE)
}

# `x`: a data frame of texts and numbers, which are aligned to the right. `empty`: what is said
# where it has no rows.
html_table <- function(x, empty = "none") {
  if (!nrow(x)) return(sprintf("<p class=\"none\">%s</p>", html_text(empty)))
  is_number <- vapply(x, is.numeric, NA)
  # NA: how wide text of invalid bytes is
  width <- function(column) nchar(as.character(column), "width", allowNA = TRUE)
  is_short <- vapply(x, function(column) all(width(column) <= 24L, na.rm = TRUE), NA)
  class <- ifelse(is_number, " class=\"n\"", ifelse(is_short, " class=\"s\"", ""))
  cells <- vapply(seq_along(x), function(k) {
    text <- if (is_number[[k]]) format_number(x[[k]]) else x[[k]]
    sprintf("<td%s>%s</td>", class[[k]], html_text(text))
  }, character(nrow(x)))
  cells <- matrix(cells, nrow(x))
  head <- sprintf("<th%s>%s</th>", class, html_text(names(x)))
  c("<div class=\"wide\"><table><thead><tr>", head, "</tr></thead><tbody>",
    sprintf("<tr>%s</tr>", apply(cells, 1L, paste, collapse = "")), "</tbody></table></div>")
}

# Whole numbers as they are, others with four digits.
format_number <- function(x) {
  text <- vapply(x, function(v) {
    if (is.na(v)) return("")
    if (v != round(v)) v <- signif(v, 4)
    format(v, scientific = FALSE, big.mark = ",", decimal.mark = ".") # whatever option OutDec is
  }, "")
  as.vector(text)
}

html_section <- function(title, ...) {
  c(sprintf("<section><h2>%s</h2>", html_text(title)), ..., "</section>")
}

html_page <- function(title, body) {
  c("<!DOCTYPE html>", "<html lang=\"en\"><head><meta charset=\"utf-8\">",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<meta name=\"color-scheme\" content=\"light dark\">",
    sprintf("<title>%s</title>", html_text(title)),
    "<style>", report_style, "</style></head><body>",
    sprintf("<h1>%s</h1>", html_text(title)), body, "</body></html>")
}

report_style <- c(
  ":root { --page: #fff; --text: #1b1f24; --soft: #5b6570; --line: #d5dae0; --head: #f2f4f7;",
  "  --j0: #0072b2; --j1: #d98c00; --j2: #009e73; --j3: #b8618f; --j4: #3a9ad9; --j5: #d55e00;",
  "  --bad: #111; }",
  "@media (prefers-color-scheme: dark) { :root {",
  "  --page: #15181c; --text: #e4e7eb; --soft: #9aa5b1;",
  "  --line: #363c44; --head: #1f242a; --bad: #fff; } }",
  "body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem;",
  "  color: var(--text); background: var(--page); overflow-wrap: anywhere; }",
  "h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.1rem; margin: 0 0 .4rem; }",
  "section { margin: 1.6rem 0; } .none, .note { color: var(--soft); margin: .2rem 0; }",
  ".wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; }",
  "th, td { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top;",
  "  border-bottom: 1px solid var(--line); overflow-wrap: normal; } th { color: var(--soft);",
  "  font-weight: 600; white-space: nowrap; }",
  ".n { text-align: right; } .n, .s { white-space: nowrap; }",
  ".wide + .wide { margin-top: .8rem; }",
  "pre { background: var(--head); padding: .7rem; overflow-x: auto; font-size: .8rem; }",
  "ul { padding-left: 1.2rem; margin: .3rem 0; }",
  # letters of 10 pixels where a page is narrow
  "svg { width: 100%; min-width: 52rem; height: auto; display: block; }",
  "svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }",
  ".axis { stroke: var(--line); }",
  ".bad { fill: var(--bad); } .area { fill: var(--j0); fill-opacity: .35; stroke: var(--j0); }",
  ".key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .8em; }",
  sprintf(".j%d { fill: var(--j%d); background: var(--j%d); }", 0:5, 0:5, 0:5),
  sprintf(".k%d { stroke: var(--j%d); }", 0:5, 0:5), ".line { fill: none; stroke-width: 1.5; }"
)

# ---- pictures ----

WIDTH <- 900 # units of a picture; 40 of them are left of its axis
LEFT <- 40

svg_picture <- function(height, text, ...) {
  c("<div class=\"wide\">",
    sprintf("<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"%s\">", WIDTH, height,
            html_text(text)), ..., "</svg></div>")
}

# Ticks below, for seconds from 0 to `span`.
svg_seconds <- function(span, y) {
  at <- pretty(c(0, span), 6)
  at <- at[at <= span]
  x <- LEFT + at / span * (WIDTH - LEFT - 20)
  line <- "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
  c(sprintf(line, LEFT, WIDTH, y, y),
    sprintf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s s</text>", x, y + 14,
            format(at, trim = TRUE)))
}

MOST_ROWS <- 128L

# The plot shows who did what when: a line for each node. Bars of one job with less than half a unit
# between them are drawn as one.
svg_stream <- function(x, nodes) {
  rows <- min(nodes, MOST_ROWS)
  x <- x[x$node > 0 & x$node <= rows, , drop = FALSE]
  if (!nrow(x)) return(html_table(x, "no tasks"))
  jobs <- sort(unique(x$job))
  span <- max(x$ended, 1e-6)
  unit <- (WIDTH - LEFT - 20) / span
  x <- x[order(x$node, x$began), , drop = FALSE]
  n <- nrow(x)
  near <- (x$began[-1L] - x$ended[-n]) * unit < 0.5 & x$ended[-1L] * unit - x$began[-1L] * unit < 2
  same <- near & x$node[-1L] == x$node[-n] & x$job[-1L] == x$job[-n] & x$ok[-1L] == x$ok[-n]
  bar <- cumsum(c(TRUE, !same))
  first <- !duplicated(bar)
  from <- x$began[first]
  to <- as.vector(tapply(x$ended, bar, max))
  y <- (x$node[first] - 1) * 14 + 2
  class <- ifelse(x$ok[first], sprintf("j%.0f", (match(x$job[first], jobs) - 1) %% 6), "bad")
  bars <- sprintf("<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"11\"/>", class,
                  LEFT + pmax(from, 0) * unit, y, pmax((to - pmax(from, 0)) * unit - 0.3, 0.4))
  every <- unique(round(pretty(c(1, rows), min(rows, 16))))
  every <- every[every >= 1 & every <= rows]
  labels <- sprintf("<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%.0f</text>", LEFT - 6L,
                    (every - 1) * 14 + 11, every)
  c(svg_picture(rows * 14 + 24, sprintf("Tasks of %d nodes in %.3g seconds", rows, span), labels,
                bars, svg_seconds(span, rows * 14 + 6)),
    stream_key(x, jobs))
}

stream_key <- function(x, jobs) {
  most <- utils::head(jobs, 6L)
  label <- x$label[match(most, x$job)]
  text <- trimws(paste(sprintf("job %.0f", most), label))
  key <- sprintf("<span class=\"key j%d\"></span>%s", seq_along(most) - 1L, html_text(text))
  more <- if (length(jobs) > 6L) sprintf("and %d more, in the same colours", length(jobs) - 6L)
  failed <- if (!all(x$ok)) {
    "<span class=\"key\" style=\"background: var(--bad)\"></span>failed"
  }
  paste0("<p class=\"note\">", paste(c(key, more, failed), collapse = " "), "</p>")
}

# Memory by time, a line for each node. `memory`: as of cluster_trace().
svg_memory <- function(memory, nodes) {
  memory <- memory[memory$node <= MOST_ROWS, , drop = FALSE]
  memory <- memory[order(memory$node, memory$time), , drop = FALSE]
  from <- min(memory$time)
  span <- max(max(memory$time) - from, 1e-6)
  most <- max(memory$memory, 1)
  x <- LEFT + (memory$time - from) / span * (WIDTH - LEFT - 20)
  y <- 150 - 140 * memory$memory / most
  points <- split(sprintf("%.1f,%.1f", x, y), memory$node)
  node <- as.numeric(names(points))
  line <- "<polyline class=\"line k%.0f\" points=\"%s\"><title>node %.0f</title></polyline>"
  lines <- sprintf(line, (node - 1) %% 6, vapply(points, paste, "", collapse = " "), node)
  at <- pretty(c(0, most), 4)
  at <- at[at <= most]
  labels <- sprintf("<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s</text>", LEFT - 6L,
                    154 - 140 * at / most, format_number(at))
  text <- sprintf("Memory of %d nodes in MB, by time", length(points))
  few <- node[node <= min(nodes, 12L)]
  key <- sprintf("<span class=\"key j%.0f\"></span>node %.0f", (few - 1) %% 6, few)
  c(svg_picture(180, text, labels, lines, svg_seconds(span, 152)),
    paste0("<p class=\"note\">MB of their own. ", paste(key, collapse = " "), "</p>"))
}

# Tasks that have ended, by time.
svg_throughput <- function(x) {
  if (!nrow(x)) return(html_table(x, "no tasks"))
  span <- max(x$ended, 1e-6)
  bins <- 100L
  k <- pmin(pmax(ceiling(x$ended / span * bins), 1), bins)
  rate <- tabulate(k, bins) / (span / bins)
  most <- max(rate)
  at <- LEFT + seq(0, bins) / bins * (WIDTH - LEFT - 20)
  y <- 110 - 100 * c(rate, rate[[bins]]) / most
  steps <- paste(sprintf("%.1f,%.1f", rep(at, each = 2L)[-c(1L, 2L * bins + 2L)],
                         rep(y[-(bins + 1L)], each = 2L)), collapse = " ")
  c(svg_picture(140, "Tasks that ended, by time",
                sprintf("<polygon class=\"area\" points=\"%d,110 %s %.1f,110\"/>", LEFT, steps,
                        at[[bins + 1L]]), svg_seconds(span, 112)),
    sprintf("<p class=\"note\">At most %s tasks a second, on average %s.</p>",
            format_number(signif(most, 3)), format_number(signif(nrow(x) / span, 3))))
}
