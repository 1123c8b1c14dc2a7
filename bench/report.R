# make report: runs the measurements of bench/, each in an R of its own, and writes bench/report/README.md from the
# tables that they leave there and in vignettes/report/. What the report says about which table is in bench/_sections.R.
#
#   Rscript bench/report.R                     all but those that take long, see `by_name`
#   Rscript bench/report.R --only=startup,tasks   these anew; of the others the figures that are there
#   Rscript bench/report.R --render            nothing is run, the text is written anew
#   QUICK=1                                    fewer repetitions and sizes
#
# Exit status 1 if a script failed or took longer than --limit=900 seconds; the report says which.
source("bench/_common.R")
source("bench/_sections.R")
source("bench/_sections-field.R")
suppressPackageStartupMessages(library(clutch))
# whose versions the report tells: bench/models.R finds them by itself
.libPaths(c(.libPaths(), deps_libraries("models")))

scripts <- c("startup", "starting", "roundtrip", "sockets", "latency", "stacks", "observers", "tasks", "tiny", "hosts",
    "promises", "futures", "foreach", "daemons", "work-on-a-node", "faults", "memory", "journal", "outlive", "broadcast", "data", "recovery",
    "profile", "peers", "busy", "work", "programs", "models", "fit", "messages",
    "suites")
# These take minutes each, or need what takes long to install. They are measured by name only: what does not change from
# one release to the next need not be measured for each. The report says when each was.
by_name <- c("observers", "hosts", "work-on-a-node", "data", "peers", "busy", "work", "programs",
             "models", "fit", "messages", "suites")
# What a script writes begins with its name; but for these
also <- c(roundtrip = "payload")
# The files of a script in these folders: those that no script with a longer name has written
files_of <- function(script, folders, ends = "") {
  longer <- scripts[startsWith(scripts, paste0(script, "-"))]
  begins <- function(names) paste0("^(", paste(names, collapse = "|"), ")[-.].*", ends)
  files <- list.files(folders, begins(c(script, also[names(also) == script])), full.names = TRUE)
  if (length(longer)) files <- files[!grepl(begins(longer), basename(files))]
  files
}
runs_file <- report("runs.csv")
machine_file <- report("machine.csv")

# ---- running ----
# No path of this machine gets into the report.
without_paths <- function(lines) {
  for (path in unique(c(getwd(), tempdir(), .libPaths(), R.home(), path.expand("~")))) if (nchar(path) > 1L)
    lines <- gsub(path, "...", lines, fixed = TRUE)
  lines
}

run <- function(script, limit) {
  unlink(files_of(script, report_folders)) # what failed shows no figures of another day
  log <- tempfile()
  on.exit(unlink(log))
  cat(sprintf("%-12s", script))
  began <- Sys.time()
  status <- suppressWarnings(system2(file.path(R.home("bin"), "Rscript"), file.path("bench", paste0(script, ".R")),
      stdout = log,
                                     stderr = log, timeout = limit))
  took <- as.numeric(Sys.time()) - as.numeric(began)
  lines <- readLines(log, warn = FALSE)
  cat(sprintf("%6.1f s%s\n", took, if (status == 0L) "" else sprintf("   FAILED (exit status %d)", status)))
  if (status != 0L) cat(paste0("    ", utils::tail(lines, 15L)), sep = "\n")
  # scripts say themselves what they had hoped for
  goals <- unlist(lapply(grep("^goals?: ", lines, value = TRUE), function(x) strsplit(sub("^goals?: ", "", x),
      "; (?=[^;]*(met|MISSED))", perl = TRUE)))
  replace_rows("goals.csv", script, data.frame(
    script = rep(script, length(goals)), goal = sub(": (met|MISSED)\\s*$", "", as.character(goals)),
    verdict = sub(".*: (met|MISSED)\\s*$", "\\1", as.character(goals))))
  replace_rows("methods.csv", script, if (status == 0L) method_of(script))
  now <- utils::read.csv(machine_file, stringsAsFactors = FALSE)
  data.frame(script = script, began = format(began, "%Y-%m-%d %H:%M", tz = "UTC"), seconds = round(took, 1),
             status = status, quick = quick, absent = paste(now$what[now$is == "not installed"], collapse = ","),
             error = if (status == 0L) "" else paste(without_paths(utils::tail(lines, 8L)), collapse = "\n"))
}

# The rows of this script in a table of all scripts; NULL: none
replace_rows <- function(file, script, rows) {
  path <- report(file)
  table <- if (file.exists(path)) utils::read.csv(path, stringsAsFactors = FALSE)
  table <- rbind(table[!table$script %in% script, ], rows)
  utils::write.csv(table[order(match(table$script, scripts)), ], path, row.names = FALSE)
}
# How a script that has just run has measured, and how many times
method_of <- function(script) {
  m <- utils::read.csv(report(paste0(script, "-method.csv")), stringsAsFactors = FALSE)
  m <- stats::setNames(m$text, m$what)
  reps <- utils::read.csv(report(paste0(script, "-raw.csv")))$rep
  data.frame(script = script, what = m[["what"]], order = m[["order"]], warm = m[["warm"]],
             repetitions = length(unique(reps[reps > 0])))
}

first_line <- function(command, args) {
  if (!nzchar(Sys.which(command))) return(NA_character_)
  x <- tryCatch(suppressWarnings(system2(command, args, stdout = TRUE, stderr = FALSE)), error = function(e) character())
  if (length(x)) x[[1L]] else NA_character_
}
version_of <- function(package) if (requireNamespace(package,
    quietly = TRUE)) as.character(utils::packageVersion(package)) else "not installed"

of_python <- function(code) {
  found <- first_python(c("-c", shQuote(code)))
  if (is.null(found)) "not installed" else found$says
}
# Those that clutch is compared with, and what their measurements need
packages <- c("mirai", "mori", "SharedObject", "parallelly", "callr", "future", "future.apply", "furrr", "snow",
    "survival", "ranger", "tune", "mlr3")

this_machine <- function() {
  proc <- function(file, pattern) {
    x <- if (file.exists(file)) grep(pattern, readLines(file, warn = FALSE), value = TRUE)
    if (length(x)) trimws(sub("^[^:]*:", "", x[[1L]])) else NA_character_
  }
  cpu <- proc("/proc/cpuinfo", "^model name")
  if (is.na(cpu)) cpu <- first_line("sysctl", c("-n", "machdep.cpu.brand_string"))
  kb <- as.numeric(sub(" .*", "", proc("/proc/meminfo", "^MemTotal")))
  erlang <- first_line("erl", c("-noshell", "-eval",
      shQuote("io:format(\"~s~n\", [erlang:system_info(otp_release)]), halt().")))
  cc <- strsplit(first_line(file.path(R.home("bin"), "R"), c("CMD", "config", "CC")), " ")[[1L]][[1L]]
  commit <- first_line("git", c("rev-parse", "--short", "HEAD"))
  rows <- c(
    "processor" = cpu,
    "cores" = as.character(available_cores()),
    "memory" = if (is.na(kb)) NA else sprintf("%.0f GB", kb / 1024^2),
    "system" = paste(Sys.info()[["sysname"]], sub("-.*", "", Sys.info()[["release"]])),
    "load when it began" = if (file.exists("/proc/loadavg")) sub("^(\\S+ \\S+ \\S+).*", "\\1",
        readLines("/proc/loadavg")) else NA,
    "R" = sub("^R version ", "", R.version.string),
    "clutch" = paste0(version_of("clutch"), if (!is.na(commit)) paste(", commit", commit)),
    "C compiler" = first_line(cc, "--version"),
    vapply(stats::setNames(nm = packages), version_of, ""),
    "Erlang/OTP" = if (is.na(erlang)) "not installed" else erlang,
    "Python" = of_python("import sys; print(sys.version.split()[0])"),
    "joblib" = of_python("import joblib; print(joblib.__version__)"),
    "Dask" = of_python("import distributed; print(distributed.__version__)"))
  rows <- rows[!is.na(rows)]
  data.frame(what = names(rows), is = unname(rows))
}

only <- strsplit(option("only", ""), ",")[[1L]]
if (length(bad <- setdiff(only, scripts))) stop("no such script: ", toString(bad), "; there are ", toString(scripts),
    call. = FALSE)
chosen <- if ("--render" %in% commandArgs(TRUE)) character() else if (length(only)) only else setdiff(scripts, by_name)
runs <- if (file.exists(runs_file)) utils::read.csv(runs_file, stringsAsFactors = FALSE)
if (!is.null(runs) && is.null(runs$absent)) runs$absent <- character(nrow(runs))
if (length(chosen)) {
  utils::write.csv(this_machine(), machine_file, row.names = FALSE)
  for (script in chosen) {
    now <- run(script, as.numeric(option("limit", "900")))
    runs <- rbind(runs[runs$script != script & runs$script %in% scripts, names(now)], now)
    runs <- runs[order(match(runs$script, scripts)), ]
    utils::write.csv(runs, runs_file, row.names = FALSE)
  }
}
if (is.null(runs)) stop("nothing has been measured", call. = FALSE)
runs <- runs[runs$script %in% scripts, ]
for (k in c("error", "absent")) runs[[k]][is.na(runs[[k]])] <- ""

# ---- writing ----
markdown <- function(table) {
  cells <- as.matrix(data.frame(lapply(table, function(x) ifelse(is.na(x), "-", as.character(x))), check.names = FALSE))
  cells <- gsub("|", "\\|", cells, fixed = TRUE)
  c(paste0("| ", paste(names(table), collapse = " | "), " |"), paste0("|", strrep(" --- |", ncol(table))),
    apply(cells, 1L, function(x) paste0("| ", paste(x, collapse = " | "), " |")))
}
read <- function(file) utils::read.csv(report(file), stringsAsFactors = FALSE, check.names = FALSE, na.strings = "NA")
# A part that cannot be made says so in its place. Where its script did not fail, the fault is in this report.
faults <- character()
part <- function(f, scripts) tryCatch(suppressWarnings(f()), error = function(e) {
  if (all(scripts %in% runs$script[runs$status == 0L])) faults <<- c(faults, paste0(toString(scripts), ": ",
      conditionMessage(e)))
  "_No figures: the script did not get so far._"
})

write_section <- function(s) {
  out <- c(paste("##", s$title), "", s$question, "")
  mine <- runs[match(s$scripts, runs$script), ]
  for (i in seq_along(s$scripts)) {
    if (is.na(mine$status[i])) out <- c(out, sprintf("**`bench/%s.R` has not been run.**", s$scripts[i]), "")
    else if (mine$status[i] != 0L)
      out <- c(out, sprintf("**`bench/%s.R` %s.** Its last words:", s$scripts[i], if (mine$status[i] == 124L)
        sprintf("was ended after %.0f seconds", mine$seconds[i]) else sprintf("failed (exit status %d)", mine$status[i])),
        "", "```", strsplit(mine$error[i], "\n")[[1L]], "```", "")
  }
  absent <- intersect(s$peers, strsplit(paste(mine$absent, collapse = ","), ",")[[1L]])
  if (length(absent)) out <- c(out, sprintf("**Without %s: not installed on this machine.**", paste(absent,
      collapse = ", ")), "")
  for (t in s$tables) out <- c(out, if (!is.null(t$caption)) c(t$caption, ""), part(function() markdown(t$make()),
      s$scripts), "")
  if (isTRUE(s$no_text)) out <- c(out, "None of the background texts reports a figure for this.", "")
  for (k in seq_along(s$plots)) if (file.exists(report(names(s$plots)[k])))
    out <- c(out, sprintf("![%s](%s)", s$plots[[k]], names(s$plots)[k]), "")
  if (!is.null(s$compares)) out <- c(out, paste("What is compared:", s$compares), "")
  if (!is.null(s$better)) out <- c(out, "What the others are better at:", "", paste("-", s$better), "")
  shown <- part(s$shows, s$scripts)
  if (length(shown) && !startsWith(shown[[1L]], "_No figures")) out <- c(out, "What it shows:", "", paste("-", shown), "")
  for (script in s$scripts[mine$status %in% 0L]) out <- c(out, part(function() {
    m <- read("methods.csv")
    m <- m[match(script, m$script), ]
    q <- isTRUE(runs$quick[runs$script == script])
    sprintf("`bench/%s.R` measures %s. %s; order: %s. Warm-up: %s.%s", script, m$what, repetitions_of(m$repetitions),
        m$order, m$warm,
            if (q) " **QUICK: fewer repetitions and sizes.**" else "")
  }, script), "")
  files <- sort(basename(unlist(lapply(s$scripts, files_of, report_folders[1:2], "csv$"))))
  links <- ifelse(files %in% in_vignettes, paste0("../../vignettes/report/", files), files)
  c(out, paste0("Again: ", paste0("`make report ONLY=", paste(s$scripts, collapse = ","), "`; by itself ",
                                 paste0("`Rscript bench/", s$scripts, ".R`", collapse = ", "), "."),
                if (length(files)) paste0(" Tables: ", paste0("[", files, "](", links, ")", collapse = ", "), ".")), "")
}
repetitions_of <- function(n) sprintf("%d repetition%s", n, if (n == 1L) "" else "s")

machine <- utils::read.csv(machine_file, stringsAsFactors = FALSE)
texts <- c(
  "R blog: *Socket Connections Update*, T. Kalibera and L. Tierney, 17 March 2020")
goals <- read("goals.csv")
goals <- goals[goals$script %in% scripts, ]
goals <- sprintf("| %s | %s | `bench/%s.R` |", goals$goal, goals$verdict, goals$script)
lines <- c(
  "# Measurements", "",
  "Written by `make report`, which runs the scripts of `bench/` and makes this page from their tables, all figures in",
  "sentences included. Figures are medians with the least and the greatest in brackets; every comparison is of one run,",
  "in which the contenders take turns.",
  "Those that take long are measured by name (`make report ONLY=`), all others together.",
  "What the background texts report was measured on other machines, and stands in a column of its own.", "",
  if (any(runs$quick)) c("**QUICK=1: with fewer repetitions and sizes than a full report has.**", ""),
  if (any(runs$status != 0L)) c(sprintf("**Failed: %s.**", paste0("`bench/", runs$script[runs$status != 0L], ".R`",
      collapse = ", ")), ""),
  "The machine:", "", markdown(stats::setNames(machine, c("", " "))), "",
  "The texts:", "", paste("-", texts), "",
  unlist(lapply(sections, write_section)),
  if (length(goals)) c("## Goals", "", "What the scripts had hoped for, in the same runs.", "", "| goal | | script |",
      "| --- | --- | --- |", goals, ""),
  "## How long it took", "",
  markdown(data.frame(script = paste0("`bench/", runs$script, ".R`"), "began (UTC)" = runs$began, seconds = runs$seconds,
                      "exit status" = runs$status, check.names = FALSE)),
  # what was run in pieces (--add) has no time of its own
  "", sprintf("Together %.1f minutes, without those that are measured by name.",
              sum(runs$seconds[!runs$script %in% by_name], na.rm = TRUE) / 60))
writeLines(lines, report("README.md"))
if (system2(file.path(R.home("bin"), "Rscript"), "tools/readme-figures.R") != 0L) faults <- c(faults, "the figures of README.md")
cat("written:", report("README.md"), sprintf("(%.1f minutes)\n", sum(runs$seconds[runs$script %in% chosen]) / 60))
big <- Filter(function(f) file.size(report(f)) > 1e5, list.files("bench/report", "[.]png$"))
if (length(big)) cat("pictures of more than 100 kB:", toString(big), "\n")
if (length(faults)) cat(paste("cannot be written:", faults), sep = "\n")
if (any(runs$status != 0L) || length(faults)) quit(status = 1L)
