# cluster_test(watch = TRUE): whenever a file of the package is saved the test files run that depend
# on it. What depends: test-depends.R.
#
# The package stays loaded in the server (test-server.R). Where nothing but functions has changed
# since it was loaded each node puts these into the package before it runs its test file; else the
# server is started again.
#
# A watch is an environment: `suite`; `run`, a function of the suite and test files that runs them;
# `find`, a function that finds all test files; `seen`, when each file was saved; `code`, the
# definitions of each file of R code, as it is now; `loaded` and `tested`, the same as the server
# has them, and as they were in the last run; `pending`, paths that were saved since that; `results`
# of the last run.

LOOK_EVERY <- 0.05   # seconds between two looks for saved files, at least
LOOK_COST <- 20      # times what a look took
SETTLES_FOR <- 0.03  # seconds in which nothing more is saved

# Runs all, and then what depends on saved files, until it is interrupted. The value is the results
# of the last run.
watch_suite <- function(suite, find, run) {
  w <- list2env(list(suite = suite, find = find, run = run, code = list(), pending = character()))
  tryCatch({
    w$seen <- save_times(suite)
    w$code <- w$loaded <- w$tested <- code_of_watch(w, names(w$seen))
    tell_errors(run_in_watch(w, find(), list()), "clutch_test_load")
    repeat {
      say("Waits for a file to be saved. Ctrl-C ends it.")
      saved <- await_saves(w)
      tell_errors(react(w, saved))
    }
  }, interrupt = function(e) NULL)
  w$results
}

# Tells what is an error, unless it is of this class, and goes on.
tell_errors <- function(code, but = "none") {
  tryCatch(code, error = function(e) if (inherits(e, but)) stop(e) else tell_problem(message_of(e)))
}

tell_problem <- function(text) {
  cli::cli_inform(c("x" = "What was saved cannot be tested:"))
  cli::cli_verbatim(text)
}

# ---- looking ----

# When each file was saved that the tests may depend on, by path. Files that editors make for
# themselves are left out.
save_times <- function(suite) {
  tests <- list.files(suite$dir, recursive = TRUE, full.names = TRUE)
  tests <- tests[!grepl("/_snaps/|/_problems/", tests)]
  files <- unique(c(source_files_of(suite), tests))
  files <- grep("[.](o|so|dll|a|dylib|swp|swo|orig|bak|tmp)$|~$|/[.#][^/]*$|/4913$", files,
                value = TRUE, invert = TRUE)
  about <- file.info(files, extra_cols = FALSE)
  files <- files[!is.na(about$size)]
  about <- about[!is.na(about$size), ]
  stats::setNames(paste(unclass(about$mtime), about$size), files)
}

# The paths that were saved, made or removed since.
await_saves <- function(w) {
  repeat {
    began <- clock()
    now <- save_times(w$suite)
    if (!identical(now, w$seen)) break
    Sys.sleep(max(LOOK_EVERY, LOOK_COST * (clock() - began)))
  }
  repeat { # an editor may write several, or remove one for a moment
    Sys.sleep(SETTLES_FOR)
    before <- now
    now <- save_times(w$suite)
    if (identical(now, before)) break
  }
  both <- union(names(now), names(w$seen))
  saved <- both[!mapply(identical, unname(now[both]), unname(w$seen[both]))]
  w$seen <- now
  saved
}

# The definitions of all files of R code; those that were not saved are as they were read before.
code_of_watch <- function(w, saved) {
  paths <- names(w$seen)[kind_of_path(w$suite, names(w$seen)) %in% c("code", "helper", "setup")]
  code <- w$code[intersect(names(w$code), paths)]
  for (path in paths[paths %in% saved | !paths %in% names(code)])
    code[[path]] <- read_definitions(path)
  code[paths]
}

# ---- reacting ----

react <- function(w, saved) {
  w$pending <- union(w$pending, saved)
  w$code <- code_of_watch(w, saved)
  all <- w$find()
  for (path in names(w$code)) {
    e <- w$code[[path]]
    if (inherits(e, "error")) stop(sprintf("%s: %s", path, conditionMessage(e)), call. = FALSE)
  }
  what <- reaction(w, all)
  files <- if (what$is_all) all else all[depends(w, all, what)]
  say(sprintf("%s: %d of %d test files", told_paths(w$suite, saved), length(files), length(all)))
  if (is.null(what$patches)) {
    end_test_server()
    w$loaded <- w$code
  }
  if (length(files)) {
    run_in_watch(w, files, what$patches)
  } else {
    ran(w)
  }
}

ran <- function(w) {
  w$tested <- w$code
  w$pending <- character()
}

# Tests write files, too: only code that is saved while they run counts as saved.
run_in_watch <- function(w, files, patches) {
  w$suite$patches <- patches
  w$suite$keeps_server <- !is.null(w$results) # unless it has been ended
  w$results <- w$run(w$suite, files)
  ran(w)
  after <- save_times(w$suite)
  others <- kind_of_path(w$suite, names(after)) %in% c("other", "data")
  seen <- w$seen[!kind_of_path(w$suite, names(w$seen)) %in% c("other", "data")]
  seen <- c(seen, after[others])
  w$seen <- seen[order(match(names(seen), names(after)))]
}

# Tells what is to be done, where `all` are the test files: list(is_all, names, tests, fixtures,
# patches). `names`: what has changed since the last run, and what uses that; `tests`, `fixtures`:
# files that were saved; `patches`: NULL if the package is to be loaded again.
reaction <- function(w, all) {
  kind <- kind_of_path(w$suite, w$pending)
  fixtures <- basename(w$pending[kind == "other"])
  out <- list(is_all = any(kind %in% c("all", "data")), names = character(), patches = list(),
              tests = basename(w$pending[kind == "test"]), fixtures = fixtures)
  of <- function(what, code = w$code) code[kind_of_path(w$suite, names(code)) %in% what]
  helpers <- c("helper", "setup")
  methods <- methods_in(w$suite$root, of("code"))
  users <- users_of(changes_of_code(w$tested, w$code)$names, of("code"), of(helpers), methods)
  out$names <- users$names
  since_load <- changes_of_code(of("code", w$loaded), of("code"))
  helps <- changes_of_code(of("helper", w$loaded), of("helper"))
  at_load <- users_of(since_load$names, of("code"), of(helpers), methods)$at_load
  named_here <- vapply(fixtures, function(f) is_named(f, names(w$code)), NA)
  named_in_test <- vapply(fixtures, function(f) is_named(f, file.path(w$suite$dir, all)), NA)
  out$is_all <- out$is_all || users$is_all || any(named_here | !named_in_test)
  out["patches"] <- list(if (!is.null(since_load$patch) && !at_load && !length(helps$names) &&
                               !any(kind %in% c("all", "data")) && !any(named_here)) {
    lapply(since_load$patch, with_classes, methods$said)
  })
  out
}

# With the generics and classes by which NAMESPACE registers it.
with_classes <- function(d, said) {
  said <- said[said$method == d$names, ]
  d$classes <- Map(c, said$generic, said$class)
  d
}

is_named <- function(name, paths) {
  any(vapply(paths, function(p) any(grepl(name, lines_of_code(p), fixed = TRUE)), NA))
}

# None of a file that is not there any more.
lines_of_code <- function(path) {
  tryCatch(suppressWarnings(read_code_lines(path)), error = function(e) character())
}

# Which of these test files depend on what has changed. A fixture is used where its name stands.
depends <- function(w, files, what) {
  vapply(files, function(name) {
    path <- file.path(w$suite$dir, name)
    if (name %in% what$tests) return(TRUE)
    any(words_of(lines_of_code(path)) %in% what$names) ||
      any(vapply(what$fixtures, is_named, NA, path))
  }, NA)
}

# ---- files ----

# "code" and "helper" are loaded in the server; "setup" is other R code that tests use; "test";
# "data": of the package, which tests may write; "all": what all depends on; "other": fixtures, and
# what tests write.
kind_of_path <- function(suite, paths) {
  paths <- as.character(paths)
  in_tests <- dirname(paths) == suite$dir
  is_r <- grepl("[.][Rr]$", paths)
  is_code <- !is.null(suite$root) & dirname(paths) == file.path(suite$root, "R") & is_r
  in_dir <- startsWith(paths, paste0(suite$dir, "/"))
  kind <- ifelse(in_dir, "other", "data")
  kind[basename(paths) %in% c("DESCRIPTION", "NAMESPACE") & !in_dir] <- "all"
  kind[is_code] <- "code"
  kind[in_tests & is_r] <- "setup"
  kind[in_tests & is_r & grepl("^helper", basename(paths))] <- "helper"
  kind[in_tests & is_r & grepl("^test", basename(paths))] <- "test"
  kind
}

told_paths <- function(suite, paths) {
  root <- if (is.null(suite$root)) suite$dir else suite$root
  names <- substring(paths, nchar(root) + 2L)
  if (length(names) == 1L) return(sprintf("%s was saved", names))
  if (length(names) > 3L) names <- c(names[1:2], sprintf("%d more", length(names) - 2L))
  sprintf("%s were saved", paste(names, collapse = ", "))
}
