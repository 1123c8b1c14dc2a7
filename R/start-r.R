# How an R of ours starts: its environment variables, what makes it start sooner, and how it is
# executed without R's front end. The session and fork servers both start such R's.

# ---- environment variables ----

# The environment variables of this session, with those of `env` in place of its own.
effective_env <- function(env) {
  now <- Sys.getenv()
  now <- structure(as.character(now), names = names(now))
  # R CMD check's own, a path that holds in one folder only; and the mark of a node, in which this
  # may run
  now <- now[!names(now) %in% c("R_TESTS", "CLUTCH_MARK")]
  now[names(env)] <- env
  now
}

# These changes make the environment `from` the environment `wanted`.
env_changes <- function(wanted, from) {
  changed <- names(wanted)[is.na(from[names(wanted)]) | from[names(wanted)] != wanted]
  list(env_set = wanted[changed], env_unset = setdiff(names(from), names(wanted)))
}

# Environment variables that matter while R starts, or to libraries when they are loaded. Only the
# others can be set in a node afterwards.
start_variable <- function(names) {
  prefixes <- c("R_", "LC_", "LANG", "LD_", "DYLD_", "OMP_", "OPENBLAS_", "MKL_", "BLIS_", "GOTO_",
                "VECLIB_", "KMP_", "MALLOC_", "TMP", "TEMP", "HOME$", "TZ", "PATH$")
  grepl(sprintf("^(%s)", paste(prefixes, collapse = "|")), names)
}

# ---- the command ----

default_packages_argument <- function(methods) {
  packages <- c("datasets", "utils", "grDevices", "graphics", "stats", if (methods) "methods")
  paste0("--default-packages=", paste(packages, collapse = ","))
}

# ---- a sooner start ----

# These variables make an R of ours start sooner than another one. They hold for the start only: for
# what the process starts itself, and for user's code after the start, they are as in `env`.

# R_NSIZE, the objects that the heap has room for. After its start an R has some 300,000. R itself
# has room for 350,000 at first, and collects twice while it starts, for 10 ms each; then it has
# room for 660,000. Here there is as much room at once, or, in a fork server without packages, room
# for SERVER_CELLS until it collects once, and for some 630,000 then: collect_for_forks(). So nodes
# collect as often as any other R. With room for 600,000 a mixed model that loads its package on the
# node took 1.1 times as long as on base R's (1.3 times in collections). With 700,000 a loop that
# makes many small objects goes through 1.17 times the memory before a collection.
#
# R decides by how much a heap grows by how many more objects there are than when it grew last, and
# takes that for all of them the first time. Where the first time is on the node, which loads
# a package, the heap doubles: nodes of seven jobs touched a seventh more pages in all, and took
# 1.14 times as long where the first touch of a page takes 17 us.
#
# server_cells() takes the bytes of code of packages that a server loads before it forks. A byte
# brings up to a third of an object. With room for half of them R collects once or twice while it
# loads: what is freed is used again, and objects lie close together. With room for all of them the
# start was 0.1 of 1.1 s shorter (package survival), but half of each page was free, and each node's
# code went through a quarter more memory.
NODE_CELLS <- 650000

quick_start <- function(env, cells = NODE_CELLS) {
  if (is.na(env["R_NSIZE"])) env["R_NSIZE"] <- format(cells, scientific = FALSE)
  env
}

server_cells <- function(code) {
  if (code > 0) round(min(NODE_CELLS + 0.13 * code, 2e7)) else SERVER_CELLS
}

# For a node that is executed. It puts back what was there by restore_env() when its start is over.
#
# `libraries`: where it finds packages, also at its start; NULL: as `env` says.
quick_start_node <- function(env, libraries) {
  quick <- quick_start(env)
  if (length(libraries)) quick["R_LIBS"] <- paste(libraries, collapse = .Platform$path.sep)
  for (v in quick_start_variables) if (!is.na(env[v])) quick[[paste0("CLUTCH_WAS_", v)]] <- env[[v]]
  quick[["CLUTCH_WAS"]] <- "1"
  quick
}

quick_start_variables <- c("R_NSIZE", "R_LIBS")

restore_env <- function() {
  if (!nzchar(Sys.getenv("CLUTCH_WAS"))) return()
  for (v in quick_start_variables) {
    was <- Sys.getenv(paste0("CLUTCH_WAS_", v), NA)
    if (is.na(was)) Sys.unsetenv(v) else do.call(Sys.setenv, structure(list(was), names = v))
  }
  Sys.unsetenv(c("CLUTCH_WAS", paste0("CLUTCH_WAS_", quick_start_variables)))
}

# ---- R without its front end ----

# `Rscript` executes the shell script `R`, which sets some variables and executes R's own program:
# 10 ms. An R of ours is that program at once, where it is certain that the script would do nothing
# else: it is the R of this session, whose environment has been through the script already.
#
# list(argv, env): what to execute instead of `command`, a call of Rscript with `env`. Where it is
# not safe these are `command` and `env`. `is_node`: it is a node, which may attach packages later.
without_front_end <- function(command, env, is_node = FALSE) {
  as_they_are <- list(argv = command, env = env)
  packages <- "^--default-packages="
  # an option of the user's may be one for the script
  is_plain <- length(command) > 2L && grepl(packages, command[[2L]]) && !grepl("^-", command[[3L]])
  is_rscript <- identical(command[[1L]], rscript_of_session())
  if (!is_plain || !is_rscript) return(as_they_are)
  program <- file.path(R.home(), "bin", "exec", "R")
  if (!has_been_through_front_end(env) || file.access(program, 1L) != 0L) return(as_they_are)
  arguments <- command[-(1:3)]
  env[["R_DEFAULT_PACKAGES"]] <- sub(packages, "", command[[2L]])
  if (is_node) env <- with_packages_later(env)
  argv <- c(program, "--no-echo", "--no-restore", paste0("--file=", command[[3L]]),
            if (length(arguments)) c("--args", arguments))
  list(argv = argv, env = env)
}

# Tells whether these variables are as R's front end would set them.
has_been_through_front_end <- function(env) {
  if (nzchar(.Platform$r_arch) || !env["R_ARCH"] %in% c(NA, "")) return(FALSE)
  home <- R.home()
  wanted <- c(R_HOME = home, R_SHARE_DIR = R.home("share"), R_INCLUDE_DIR = R.home("include"),
              R_DOC_DIR = R.home("doc"))
  if (!identical(unname(env[names(wanted)]), unname(wanted))) return(FALSE)
  lib <- file.path(home, "lib")
  if (file.exists(file.path(lib, "libR.dylib"))) return(FALSE) # the paths have another variable
  if (!file.exists(file.path(lib, "libR.so"))) return(TRUE)
  # the script puts R's own libraries before all others
  grepl(paste0("^\\Q", lib, "\\E(:|$)"), env["LD_LIBRARY_PATH"], perl = TRUE)
}
