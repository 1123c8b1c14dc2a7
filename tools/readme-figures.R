# Rscript tools/readme-figures.R          writes the table of figures in README.md
# Rscript tools/readme-figures.R --check  says whether README.md has the figures of the tables
#
# The figures are medians in the tables of vignettes/report/. The table stands in README.md between
# two comments, `begin` and `end` below. `make report` and `make readme` write it, `make lint`
# checks it. The last line of --check is "N passed, N failed".

begin <- "<!-- figures: written by 'make readme' from the tables of vignettes/report/ -->"
end <- "<!-- end of figures -->"

measured <- function(name) {
  file <- file.path("vignettes", "report", paste0(name, ".csv"))
  utils::read.csv(file, stringsAsFactors = FALSE)
}

# Two significant digits; "?" where nothing was measured
number <- function(x) {
  if (length(x) != 1L || is.na(x)) return("?")
  format(signif(x, 2), scientific = FALSE, drop0trailing = TRUE, big.mark = ",")
}

# The contenders of each row: clutch, base R, mirai, future
row_of <- function(what, cells) {
  paste0("| ", paste(c(what, cells), collapse = " | "), " |")
}

start_cell <- function(startup, who, nodes) {
  row <- startup[startup$who == who & startup$nodes == nodes, ]
  if (!nrow(row)) return("?")
  if (startsWith(row$note, "cannot")) return("cannot")
  number(row$median)
}

# `column`: where the table has the figure; `key`: where it has the contender
cells <- function(table, key, who, column = "median") {
  vapply(who, function(w) number(table[[column]][table[[key]] == w]), "")
}

# How long a node was still there that did not end: bench/recovery.R waits no longer.
ends_cells <- function() {
  recovery <- measured("recovery")
  recovery <- recovery[recovery$what == "the session is killed: its busy nodes are gone", ]
  vapply(c("clutch", "base", "mirai"), function(who) {
    ms <- recovery$median[recovery$who == who]
    if (length(ms) == 1L && is.infinite(ms)) "over 2,000" else number(ms)
  }, "")
}

figures <- function() {
  startup <- measured("startup")
  startup$note[is.na(startup$note)] <- ""
  starts <- function(nodes) {
    who <- c("clutch, cold", "base, parallel", "mirai", "parallelly, parallel")
    vapply(who, function(w) start_cell(startup, w, nodes), "")
  }
  calls <- c("clutch clusterCall", "base clusterCall", "mirai")
  sends <- c("clutch clusterExport", "base clusterExport", "mirai everywhere")
  memory <- measured("memory")
  idle <- memory[memory$when == "idle", ]
  machine <- measured("machine")
  about <- function(what) machine$is[machine$what == what]
  c(
    begin,
    row_of("", c("clutch", "base R", "mirai", "future")),
    paste0("|", strrep(" --- |", 5L)),
    row_of("start 8 nodes (s)", starts(8)),
    row_of("start 64 nodes (s)", starts(64)),
    row_of("start 1,000 nodes (s)", starts(1000)),
    row_of("one call and its answer (\u00b5s)", c(cells(measured("roundtrip"), "who", calls), "?")),
    row_of(
      "tiny tasks, one by one (per s)",
      c(cells(measured("tasks"), "who", c("clutch", "base", "mirai"), "tasks_a_second"), "?")
    ),
    row_of("40 MB to 8 nodes (s)", c(cells(measured("broadcast"), "how", sends), "?")),
    row_of(
      "memory of an idle node (MB)", c(cells(idle, "who", c("clutch", "base PSOCK", "mirai")), "?")
    ),
    row_of("session killed, busy nodes end (ms)", c(ends_cells(), "?")),
    row_of("replaces a node, repeats its task", c("yes", "no", "no", "no")),
    row_of("relays output and messages", c("yes", "no", "no", "yes")),
    "",
    paste0(
      "Medians from [bench/report/README.md](bench/report/README.md): ", about("cores"),
      " cores, R ", sub(" .*", "", about("R")), ", ", sub(" .*", "", about("system")), "."
    ),
    end
  )
}

check <- "--check" %in% commandArgs(TRUE)
readme <- readLines("README.md", encoding = "UTF-8")
from <- match(begin, readme)
to <- match(end, readme)
if (is.na(from) || is.na(to) || to < from) {
  cat("README.md has no place for the figures: two lines\n", begin, "\n", end, "\n", sep = "")
  if (check) cat("0 passed, 1 failed\n")
  quit("no", status = 1L)
}
made <- enc2utf8(figures())
if (check) {
  there <- readme[from:to]
  same <- identical(there, made)
  if (!same) {
    cat("README.md differs from the tables of vignettes/report/; 'make readme' writes:\n")
    cat(setdiff(made, there), sep = "\n")
  }
  cat(if (same) "1 passed, 0 failed\n" else "0 passed, 1 failed\n")
  quit("no", status = if (same) 0L else 1L)
}
file <- file("README.md", "wb", encoding = "UTF-8")
writeLines(c(readme[seq_len(from - 1L)], made, readme[-seq_len(to)]), file, useBytes = TRUE)
close(file)
