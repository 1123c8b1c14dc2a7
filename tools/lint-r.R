# Rscript tools/lint-r.R
#
# Checks the R code of the package without running it:
#   - no file uses a function of a file that uses it in turn, directly or by way of others;
#   - a room, which is what a file's name has before the first hyphen, uses only the rooms that the
#     table of directions allows;
#   - the fields of a record (a plan, a cluster, its hosts) are written in its own file, and nobody
#     asks for one that is not listed there;
#   - a function has at most 60 lines, a file 500, a line 100 columns;
#   - one statement a line: no `;`;
#   - a name is defined in one file: the one that R reads later would replace the other's.
# Prints which file uses which. The last line is "N passed, N failed"; the exit status is 1 when
# anything failed.

most <- c(columns = 100L, file = 500L, fun = 60L)

# What functions share, see R/base-state.R
environments <- c("the", "the_node")

# Which rooms the files of a room may use, besides their own. A room uses only rooms of the rows
# above it, so no two need each other. A line that begins with a space goes on with the row before.
directions <- "
base
machine   base
code      base
journal   base code
socket    base
observer  base socket
start     base machine
plan      base machine code
node      base machine code socket start plan observer
event     base plan
launch    base machine observer start plan event
share     base launch
hosts     base start plan event launch
ssh       base start plan launch hosts
task      base machine code socket plan event launch
resize    base plan event launch hosts task
template  base start plan launch hosts task resize
slurm     base start plan event launch hosts task resize
cluster   base machine code start plan event launch share hosts ssh task
forward   base socket plan launch hosts task resize cluster
state     base forward
detach    base start plan code journal launch hosts ssh task cluster
map       base code journal event task cluster detach
run       base code plan launch task cluster map
actor     base code journal plan launch task cluster forward map
runner    base node start journal task cluster detach map
parallel  base machine plan launch task cluster
test      base machine start plan launch
trace     base machine task cluster
view      base socket observer plan event launch hosts task cluster detach trace
profile   base code plan launch task cluster parallel view
debug     base socket plan node launch parallel task cluster map
adapt     base machine code journal socket start plan node event launch task cluster detach map
          parallel view
zzz       base code start event launch task parallel adapt
"

# Files that list the fields of records, and write them, by what a record is called where it is
# used: a variable, a field of another, a function that returns one.
record_files <- c(plan = "plan-new", info = "plan-cluster", info_of = "plan-cluster",
                  remote = "plan-remote")

# ---- reading ----

# One file: names that it defines, what each top-level expression uses, and what breaks a rule.
read_file <- function(path) {
  lines <- readLines(path, warn = FALSE, encoding = "UTF-8")
  code <- parse(path, keep.source = TRUE, encoding = "UTF-8")
  data <- utils::getParseData(code)
  defined <- lapply(code, defined_name)
  list(
    name = sub("\\.R$", "", basename(path)),
    defines = unlist(defined),
    uses = lapply(seq_along(code), function(i) used_names(code[[i]])),
    problems = list(
      columns = problems_at(path, which(nchar(lines) > most[["columns"]]), "more than 100 columns"),
      file = if (length(lines) > most[["file"]]) sprintf("%s: %d lines", path, length(lines)),
      fun = long_functions(path, data),
      statements = problems_at(path, joined_lines(data), "more than one statement"),
      records = record_problems(path, code),
      fields = field_problems(path, code)
    )
  )
}

is_assignment <- function(e) {
  is.call(e) && (identical(e[[1L]], quote(`<-`)) || identical(e[[1L]], quote(`=`)))
}

defined_name <- function(e) {
  if (!is_assignment(e)) return(NULL)
  target <- e[[2L]]
  if (is.character(target) || is.name(target)) as.character(target)
}

# The names that a top-level expression takes from elsewhere, its own local variables left out.
used_names <- function(e) {
  fun <- if (is_assignment(e) && is.call(e[[3L]]) && identical(e[[3L]][[1L]], quote(`function`))) {
    eval(e[[3L]], baseenv())
  } else {
    as.function(list(e), envir = baseenv())
  }
  # an environment whose element is assigned is a local variable to findGlobals()
  union(codetools::findGlobals(fun), intersect(all.names(e), environments))
}

joined_lines <- function(data) unique(data$line1[data$token == "';'"])

problems_at <- function(path, lines, what) {
  if (length(lines)) sprintf("%s:%d: %s", path, lines, what)
}

long_functions <- function(path, data) {
  is_fun <- data$token == "FUNCTION"
  funs <- data[data$id %in% data$parent[is_fun], , drop = FALSE]
  length <- funs$line2 - funs$line1 + 1L
  bad <- length > most[["fun"]]
  if (any(bad)) sprintf("%s:%d: a function of %d lines", path, funs$line1[bad], length[bad])
}

# ---- fields of records ----

record_problems <- function(path, code) {
  if (sub("\\.R$", "", basename(path)) %in% record_files) return(NULL)
  targets <- unlist(lapply(code, written_targets), recursive = FALSE)
  bad <- Filter(is_field_of_record, targets)
  if (length(bad)) {
    text <- vapply(bad, function(e) deparse(e)[[1L]], "")
    own <- paste0(unique(record_files), ".R", collapse = ", ")
    sprintf("%s: writes %s, which is for %s", path, text, own)
  }
}

# Fields that a file asks for and no record of that kind has.
field_problems <- function(path, code) {
  asked <- unique(unlist(lapply(code, asked_fields)))
  if (length(asked)) sprintf("%s: asks for %s, which is no field of this record", path, asked)
}

asked_fields <- function(e) {
  if (!is.call(e)) return(NULL)
  record <- if (identical(e[[1L]], quote(`$`))) last_name(e[[2L]]) else ""
  is_unknown <- record %in% names(record_fields) &&
    !as.character(e[[3L]]) %in% record_fields[[record]]
  deeper <- lapply(as.list(e), function(part) if (!missing(part)) asked_fields(part))
  c(if (is_unknown) deparse(e)[[1L]], unlist(deeper))
}

# The names in a list `fields` that a file makes.
listed_fields <- function(e) {
  if (!is.call(e)) return(NULL)
  is_list <- is_assignment(e) && identical(e[[2L]], quote(fields)) && is.call(e[[3L]]) &&
    identical(e[[3L]][[1L]], quote(list))
  if (is_list) return(setdiff(names(e[[3L]]), ""))
  unlist(lapply(as.list(e), function(part) if (!missing(part)) listed_fields(part)))
}

# What is assigned to in an expression, at any depth.
written_targets <- function(e) {
  if (!is.call(e)) return(NULL)
  is_write <- is.name(e[[1L]]) && as.character(e[[1L]]) %in% c("<-", "<<-", "=")
  deeper <- lapply(as.list(e), function(part) if (!missing(part)) written_targets(part))
  c(if (is_write) list(e[[2L]]), unlist(deeper, recursive = FALSE))
}

# Whether it is info$a, t$info$a[[1L]], info_of(cl)$a: not t$info, which is a field of `t`.
is_field_of_record <- function(e) {
  while (is.call(e)) {
    by <- as.character(e[[1L]])[[1L]]
    if (by %in% c("$", "[[") && last_name(e[[2L]]) %in% names(record_files)) return(TRUE)
    if (length(e) < 2L) return(FALSE)
    e <- e[[2L]]
  }
  FALSE
}

# "info" of info, t$info, and "info_of" of info_of(cl).
last_name <- function(e) {
  if (is.name(e)) return(as.character(e))
  if (!is.call(e)) return("")
  if (identical(e[[1L]], quote(`$`))) as.character(e[[3L]]) else as.character(e[[1L]])[[1L]]
}

# ---- which file uses which ----

# A data frame with columns from, to, name: file `from` uses `name` of file `to`.
find_edges <- function(files) {
  home <- unlist(lapply(unname(files), function(f) {
    structure(rep(f$name, length(f$defines)), names = f$defines)
  }))
  edges <- lapply(files, function(f) {
    used <- intersect(unlist(f$uses), names(home))
    used <- used[home[used] != f$name]
    data.frame(from = rep(f$name, length(used)), to = unname(home[used]), name = used)
  })
  do.call(rbind, edges)
}

# The edges that are left when files that use nothing, or that nobody uses, are taken away again and
# again: none of them where there is no circle.
circle_edges <- function(edges) {
  repeat {
    n <- nrow(edges)
    edges <- edges[edges$to %in% edges$from & edges$from %in% edges$to, , drop = FALSE]
    if (nrow(edges) == n) return(edges)
  }
}

# The table as a list: for each room those that it may use.
read_directions <- function(text) {
  text <- gsub("\n +", " ", trimws(text))
  rows <- strsplit(strsplit(text, "\n", fixed = TRUE)[[1L]], " +")
  structure(lapply(rows, `[`, -1L), names = vapply(rows, `[[`, "", 1L))
}

# What is wrong with the table itself.
table_problems <- function(allowed, rooms) {
  above <- function(i) setdiff(allowed[[i]], names(allowed)[seq_len(i - 1L)])
  upwards <- lapply(seq_along(allowed), above)
  bad <- lengths(upwards) > 0L
  lacks <- setdiff(rooms, names(allowed))
  c(
    sprintf("directions: the row of %s names %s, which is not above it", names(allowed)[bad],
            vapply(upwards[bad], paste, "", collapse = " ")),
    sprintf("directions: room %s has no row", lacks)
  )
}

room_of <- function(name) sub("-.*", "", name)

# Edges that lead to a room that is not allowed.
forbidden_edges <- function(edges, allowed) {
  from <- room_of(edges$from)
  to <- room_of(edges$to)
  is_allowed <- from == to | mapply(function(a, b) b %in% unlist(allowed[a]), from, to)
  edges[!is_allowed, , drop = FALSE]
}

# Names that more than one file defines.
defined_twice <- function(files) {
  by_file <- lapply(files, function(f) unique(f$defines))
  all <- unlist(by_file, use.names = FALSE)
  bad <- sort(unique(all[duplicated(all)]))
  vapply(bad, function(name) {
    at <- names(by_file)[vapply(by_file, function(defines) name %in% defines, NA)]
    sprintf("%s is defined in %s", name, paste0("R/", at, ".R", collapse = " and "))
  }, "")
}

edge_text <- function(edges) {
  sprintf("R/%s.R uses %s() of R/%s.R", edges$from, edges$name, edges$to)
}

# ---- the report ----

record_fields <- lapply(record_files, function(name) {
  path <- sprintf("R/%s.R", name)
  if (file.exists(path)) unlist(lapply(parse(path, encoding = "UTF-8"), listed_fields))
})
files <- lapply(sort(Sys.glob("R/*.R")), read_file)
names(files) <- vapply(files, function(f) f$name, "")
edges <- find_edges(files)
for (name in names(files)) {
  uses <- unique(edges$to[edges$from == name])
  cat(sprintf("%-16s %s\n", name, if (length(uses)) paste(sort(uses), collapse = " ") else "-"))
}

circle <- circle_edges(edges)
allowed <- read_directions(directions)
results <- unlist(lapply(files, function(f) f$problems), recursive = FALSE)
results <- c(results, list(
  circle = if (nrow(circle)) c("in circles, or between them:", paste(" ", edge_text(circle))),
  table = table_problems(allowed, unique(room_of(names(files)))),
  direction = if (nrow(bad <- forbidden_edges(edges, allowed))) edge_text(bad),
  twice = defined_twice(files)
))
# a file without lines of one kind has the value NULL there, which unlist() keeps
failed <- results[lengths(results) > 0L]
if (length(failed)) writeLines(unlist(failed, use.names = FALSE))
passed <- length(results) - length(failed)
cat(sprintf("lint of R code: %d passed, %d failed\n", passed, length(failed)))
if (length(failed)) quit("no", status = 1L)
