# The fork server that has a package loaded and its helper files sourced, from which cluster_test()
# forks a node for each test file. It stays for the next call of the session, as long as nothing has
# changed of what it depends on.
#
# the$tests: list(key, info) of the last one; NULL: there is none.

# Its heap has room for so many objects at first. To load testthat, pkgload and what these import
# makes 1.5 million, of which 0.6 million stay: R would collect some ten times, for 0.1 s.
TEST_CELLS <- 2e6

LOAD_LIMIT <- 3600 # seconds that a package may take to load, and to compile

server_of_suite <- function(s) {
  if (s$load == "installed" && !is_installed_package(s$package))
    throw_not_loaded(s, list(why = "it is not installed"))
  key <- server_key_of(s)
  kept <- the$tests
  is_right <- !is.null(kept) && (isTRUE(s$keeps_server) || identical(kept$key, key))
  if (is_right && is_program_server_alive(kept$info)) return(kept$info)
  end_test_server()
  info <- new_test_server(s)
  the$tests <- list(key = key, info = info)
  info
}

end_test_server <- function() {
  kept <- the$tests
  the$tests <- NULL
  if (!is.null(kept)) end_program_server(kept$info)
}

new_test_server <- function(s) {
  work <- c(s[c("dir", "root", "package", "load", "load_all")], list(warm_up = s$warm_up))
  # a collection takes 0.07 s here; few short nodes do without
  preload <- list(code = as.call(list(prepare_tests, work)), variables = list(),
                  attach = character(), load = character(), wd = getwd(), cells = TEST_CELLS,
                  collects = s$warm_up)
  tryCatch(
    start_program_server(preload, s$nodes, s$env, "fork_server", LOAD_LIMIT, get_reporters_ready),
    clutch_setup = function(e) throw_not_loaded(s, e),
    clutch_start = function(e) {
      if (!isTRUE(e$threads)) stop(e)
      say(paste("The package, or one that it needs, starts threads, and threads do not survive a",
                "fork: each test file loads it by itself, which takes longer."))
      start_program_server(NULL, s$nodes, s$env, "spawn", LOAD_LIMIT)
    }
  )
}

throw_not_loaded <- function(s, e) {
  what <- if (is.null(s$package)) "testthat" else sprintf("package '%s'", s$package)
  throw("test_load", sprintf("%s cannot be loaded: %s", what, e$why))
}

# The server has what depends on this.
server_key_of <- function(s) {
  about <- function(files) paste(files, unclass(file.mtime(files)), file.size(files))
  files <- source_files_of(s)
  helpers <- list.files(s$dir, "^helper.*[.][rR]$", full.names = TRUE)
  env <- effective_env(s$env)
  installed <- if (s$load == "installed") about(find.package(s$package))
  list(s[c("dir", "root", "package", "load", "load_all", "nodes")], about(sort(files)),
       about(helpers), about(.libPaths()), installed,
       env[order(names(env))])
}

# The files from which the package is loaded, but for what is made of them; none where it is not
# loaded from source.
source_files_of <- function(s) {
  if (s$load != "source") return(character())
  files <- list.files(file.path(s$root, c("R", "src", "inst", "data")), recursive = TRUE,
                      full.names = TRUE)
  c(file.path(s$root, c("DESCRIPTION", "NAMESPACE")),
    grep("[.](o|so|dll|a|dylib)$", files, value = TRUE, invert = TRUE))
}
