# cluster_test(watch = TRUE): whenever a file of the package is saved the test files run that depend
# on it. What depends: test-depends.R.
#
# The package stays loaded in the server (test-server.R). Where nothing but functions has changed
# each node puts these into the package before it runs its test file; else the server is started
# again.
#
# A watch is an environment: `suite`; `run`, a function of test files that runs them; `files`, a
# function that finds all test files; `seen`, when each file was saved; `code`, the definitions of
# each R file, by its path; `patches`, functions that the server does not have yet; `results` of the
# last run.

LOOK_EVERY <- 0.05   # seconds between two looks for saved files, at least
LOOK_COST <- 20      # times what a look took
SETTLES_FOR <- 0.03  # seconds in which nothing more is saved

# Runs all, and then what depends on saved files, until it is interrupted. The value is the results
# of the last run.
watch_suite <- function(suite, files, run) {
  w <- list2env(list(suite = suite, files = files, run = run, code = list(), patches = list()))
  tryCatch({
    run_in_watch(w, files(), save_times(suite))
    repeat {
      say("Waits for a file to be saved. Ctrl-C ends it.")
      react(w, await_saves(w))
    }
  }, interrupt = function(e) NULL)
  w$results
}

# ---- looking ----

# When each file was saved that the tests may depend on, by path.
save_times <- function(suite) {
  tests <- list.files(suite$dir, recursive = TRUE, full.names = TRUE)
  tests <- tests[!grepl("/_snaps/|/_problems/", tests)]
  root <- if (suite$load == "source") suite$root
  folders <- if (!is.null(root)) file.path(root, c("R", "src", "inst", "data"))
  files <- list.files(folders, recursive = TRUE, full.names = TRUE)
  files <- grep("[.](o|so|dll|a|dylib)$", files, value = TRUE, invert = TRUE)
  if (!is.null(root)) files <- c(file.path(root, c("DESCRIPTION", "NAMESPACE")), files)
  files <- c(files, tests)
  about <- file.info(files, extra_cols = FALSE)
  stats::setNames(paste(unclass(about$mtime), about$size), files)
}

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
    if (identical(now, before)) return(now)
  }
}

# Tests write files, too: only code that is saved while they run counts as saved.
run_in_watch <- function(w, files, seen) {
  read_definitions(w, seen)
  w$suite$patches <- w$patches
  w$suite$keeps_server <- !is.null(w$results) # unless it has been ended
  w$results <- w$run(w$suite, files)
  after <- save_times(w$suite)
  is_code <- kind_of_path(w$suite, names(after)) != "other"
  w$seen <- c(seen[kind_of_path(w$suite, names(seen)) != "other"], after[!is_code])
  w$seen <- w$seen[order(match(names(w$seen), names(after)))]
}

# ---- reacting ----

react <- function(w, now) {
  both <- union(names(now), names(w$seen))
  saved <- both[!(now[both] %in% w$seen[both] & both %in% names(now) & both %in% names(w$seen))]
  was <- w$code
  read_definitions(w, now)
  what <- reaction(w, saved, was)
  if (!is.null(what$problem)) {
    w$seen <- now
    return(tell_problem(what$problem))
  }
  all <- w$files()
  files <- if (what$is_all) all else all[depends(w, all, what)]
  say(sprintf("%s: %d of %d test files", told_paths(w$suite, saved), length(files), length(all)))
  w$patches <- what$patches
  if (is.null(what$patches)) {
    end_test_server()
    w$patches <- list()
  }
  if (!length(files)) {
    w$seen <- now
    return(invisible())
  }
  tryCatch(run_in_watch(w, files, now), error = function(e) {
    w$seen <- now
    tell_problem(message_of(e))
  })
}

tell_problem <- function(text) cli::cli_inform(c("x" = "{text}"))

# Tells what is to be done: list(is_all, names, tests, fixtures, patches, problem). `names`: what
# has changed, and what uses that; `tests`, `fixtures`: files that were saved; `patches`: NULL if
# the package is to be loaded again.
reaction <- function(w, saved, was) {
  kind <- kind_of_path(w$suite, saved)
  out <- list(is_all = any(kind == "all"), names = character(), patches = w$patches,
              tests = basename(saved[kind == "test"]),
              fixtures = basename(saved[kind == "other"]))
  if (any(kind %in% c("all", "helper"))) out["patches"] <- list(NULL)
  code <- saved[kind %in% c("code", "helper")]
  for (path in code) {
    now <- w$code[[path]]
    if (inherits(now, "error")) {
      out$problem <- sprintf("%s: %s", basename(path), conditionMessage(now))
      return(out)
    }
    before <- was[[path]]
    change <- changes_of_file(if (inherits(before, "error")) list() else before, now)
    out$names <- union(out$names, change$names)
    if (is.null(change$patch)) out["patches"] <- list(NULL)
    if (is.null(out$patches)) next
    out$patches[vapply(change$patch, function(d) d$name, "")] <- change$patch
  }
  add_users(w, out)
}

add_users <- function(w, out) {
  if (!length(out$names)) return(out)
  kind <- kind_of_path(w$suite, names(w$code))
  of <- function(what) unlist(unname(w$code[kind == what]), recursive = FALSE)
  methods <- methods_in(w$suite$root, of("code"))
  users <- users_of(out$names, of("code"), of("helper"), methods)
  out$is_all <- out$is_all || users$is_all
  out$names <- users$names
  if (users$at_load) out["patches"] <- list(NULL)
  for (name in names(out$patches)) {
    generic <- methods$generic[methods$method == name]
    out$patches[[name]]$methods <- lapply(generic, function(g) {
      c(g, substring(name, nchar(g) + 2L))
    })
  }
  out
}

# Which of these test files depend on what has changed. A fixture is used where its name stands.
depends <- function(w, files, what) {
  vapply(files, function(name) {
    if (name %in% what$tests) return(TRUE)
    lines <- readLines(file.path(w$suite$dir, name), warn = FALSE)
    any(words_of(lines) %in% what$names) ||
      any(vapply(what$fixtures, function(f) any(grepl(f, lines, fixed = TRUE)), NA))
  }, NA)
}

# ---- files ----

# "code", "helper", "test"; "all": all depends on it; "other": fixtures, and what tests write.
kind_of_path <- function(suite, paths) {
  in_tests <- dirname(paths) == suite$dir
  is_r <- grepl("[.][Rr]$", paths)
  is_code <- !is.null(suite$root) & dirname(paths) == file.path(suite$root, "R") & is_r
  named <- function(how) in_tests & is_r & grepl(how, basename(paths))
  in_dir <- startsWith(paths, paste0(suite$dir, "/"))
  kind <- ifelse(in_dir, "other", "all")
  kind[is_code] <- "code"
  kind[named("^helper")] <- "helper"
  kind[named("^(setup|teardown)")] <- "all"
  kind[named("^test")] <- "test"
  kind
}

# Reads those that were saved since.
read_definitions <- function(w, now) {
  paths <- names(now)[kind_of_path(w$suite, names(now)) %in% c("code", "helper")]
  again <- paths[!(now[paths] %in% w$seen[paths]) | !paths %in% names(w$code)]
  w$code <- w$code[intersect(names(w$code), paths)]
  for (path in again) w$code[[path]] <- definitions_of(path)
}

told_paths <- function(suite, paths) {
  root <- if (is.null(suite$root)) suite$dir else suite$root
  names <- substring(paths, nchar(root) + 2L)
  if (length(names) == 1L) return(sprintf("%s was saved", names))
  if (length(names) > 3L) names <- c(names[1:2], sprintf("%d more", length(names) - 2L))
  sprintf("%s were saved", paste(names, collapse = ", "))
}
