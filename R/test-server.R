# The fork server that has a package loaded and its helper files sourced, from which cluster_test()
# forks a node for each test file. It stays for the next call of the session, as long as nothing has
# changed of what it depends on.
#
# the$tests: list(key, info) of the last one; NULL: there is none.

LOAD_LIMIT <- 3600 # seconds that a package may take to load, and to compile

server_of_suite <- function(s) {
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
  preload <- list(code = as.call(list(prepare_tests, work)), variables = list(),
                  attach = character(), load = character(), wd = getwd(), loads = loads_of(s))
  tryCatch(
    start_program_server(preload, s$nodes, s$env, "fork_server", LOAD_LIMIT,
                         function() loadNamespace("testthat")),
    clutch_setup = function(e) throw_not_loaded(s, e),
    clutch_start = function(e) {
      if (!isTRUE(e$threads)) stop(e)
      say(paste("The package, or one that it needs, starts threads, and threads do not survive a",
                "fork: each test file loads it by itself, which takes longer."))
      start_program_server(NULL, s$nodes, s$env, "spawn", LOAD_LIMIT)
    }
  )
}

# Packages that the server loads: how many objects they bring decides how its heap begins.
loads_of <- function(s) {
  if (s$load == "installed") return(c("testthat", s$package))
  if (s$load != "source") return("testthat")
  imports <- read.dcf(file.path(s$root, "DESCRIPTION"), c("Depends", "Imports"))
  names <- sub("[^A-Za-z0-9.].*", "", trimws(unlist(strsplit(imports[!is.na(imports)], ","))))
  c("testthat", "pkgload", setdiff(names, c("R", "")))
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
