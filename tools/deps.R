# Rscript tools/deps.R missing [peers] [vignettes] [tests] [adapters] [site]
#   prints the packages that are missing or too old
# Rscript tools/deps.R install [peers] [vignettes] [tests] [adapters] [site]
#   installs them from the configured repository
# Rscript tools/deps.R newer FOLDER [adapters]
#   installs into FOLDER packages of which tests want a newer version than that of the library
# Rscript tools/deps.R models FOLDER NEWER-FOLDER
#   installs into FOLDER what bench/models.R measures, beside what is in NEWER-FOLDER
# Rscript tools/deps.R locks LIBRARY
#   removes the lock folders that an interrupted install has left. 'install', 'newer' and 'models'
#   do so before they install
#
# Peers are what bench/ compares with, 'vignettes' is what builds these, 'tests' what tests of
# living together with other packages use: nice to have, no failure without them. 'adapters' are
# the packages whose own test suites or examples 'make test-adapters' runs, 'site' what 'make site'
# builds with.

args <- commandArgs(TRUE)
needed <- c(cli = "0", testthat = "3.0.0", survival = "0", boot = "0", data.table = "0")
for_tests <- c(
  "lintr", "spelling", "roxygen2", "promises", "later", "progressr", "rlang", "purrr", "foreach",
  "doParallel", "snow", "doSNOW", "future", "parallelly", "dplyr", "BiocParallel", "iterators",
  "R6", "mirai", "crew", "doRNG", "Rcpp", "bit64", "jsonlite", "profvis", "httpuv", "curl",
  "otel", "xml2", "pkgload", "nlme", "rpart", "box", "import"
)
# their examples call mclapply(), or their own tests run on clutch
for_adapters <- c(
  "BiocParallel", "RUnit", "pbapply", "pbmcapply", "vegan", "survey", "pls", "sandwich", "partykit",
  "TH.data", "party", "phangorn", "tm", "SnowballC"
)
peers <- c("parallelly", "mirai", "callr", "future", "future.apply", "furrr", "snow", "ranger",
           "Rmpi", "pkgbuild")
more <- c(
  if ("peers" %in% args) structure(rep("0", length(peers)), names = peers),
  if ("vignettes" %in% args) c(knitr = "0", rmarkdown = "0"),
  if ("site" %in% args) c(pkgdown = "2.0.0", xml2 = "0"),
  if ("tests" %in% args) structure(rep("0", length(for_tests)), names = for_tests),
  if ("adapters" %in% args) structure(rep("0", length(for_adapters)), names = for_adapters)
)
needed <- c(needed, more)

if (getRversion() < "4.2.0") {
  stop("clutch needs R >= 4.2, and this is ", getRversion(), call. = FALSE)
}

# An install that was interrupted may leave the folder of a package without these
is_whole <- function(folder) {
  file.exists(file.path(folder, "DESCRIPTION")) &&
    file.exists(file.path(folder, "Meta", "package.rds"))
}

lacking <- function(packages) {
  there <- vapply(names(packages), function(p) {
    # the one that library() finds
    folder <- Find(function(f) file.exists(file.path(f, "DESCRIPTION")), file.path(.libPaths(), p))
    if (is.null(folder) || !is_whole(folder)) return(FALSE)
    version <- tryCatch(utils::packageVersion(p, dirname(folder)), error = function(e) NULL)
    !is.null(version) && version >= packages[[p]]
  }, NA)
  names(packages)[!there]
}

# All processes: id, that of its parent, and command line of each.
processes <- function() {
  if (!dir.exists("/proc/self")) {
    form <- "^ *([0-9]+) +([0-9]+) +(.*)$"
    columns <- c("-o", "pid=", "-o", "ppid=", "-o", "args=")
    lines <- system2("ps", c("-A", "-ww", columns), stdout = TRUE)
    return(data.frame(id = sub(form, "\\1", lines), parent = sub(form, "\\2", lines),
                      command = sub(form, "\\3", lines)))
  }
  content <- function(file) { # "" of a process that has ended meanwhile
    bytes <- tryCatch(suppressWarnings(readBin(file, "raw", 1e5)), error = function(e) raw())
    rawToChar(replace(bytes, bytes == 0L, charToRaw(" ")))
  }
  folders <- Sys.glob("/proc/[0-9]*")
  # ID (NAME) STATE PARENT ...: a name may have spaces and parentheses
  stat <- vapply(file.path(folders, "stat"), content, "")
  data.frame(
    id = basename(folders),
    parent = sub("^.*\\) [A-Za-z] ([0-9]+) .*$", "\\1", stat, useBytes = TRUE),
    command = vapply(file.path(folders, "cmdline"), content, "")
  )
}

# Which of these lock folders of `lib` a living process uses. R CMD INSTALL has no file open in its
# lock folder most of the time, but its command line tells: "nextArg" is before each argument. One
# that does not name its library may install into this. R CMD build and check have such a command
# line, too, but the scripts that start them have their names; what they install, a process of its
# own does.
are_held <- function(locks, lib) {
  all <- processes()
  commands <- all$command
  parents <- commands[match(all$parent, all$id)]
  installers <- commands[
    grepl("nextArg", commands, fixed = TRUE, useBytes = TRUE) &
      !grepl("/bin/(build|check) ", parents, useBytes = TRUE)
  ]
  option <- ".*nextArg(-lnextArg|--library=)(/.*?)(nextArg.*| *$)"
  named <- grepl(option, installers, perl = TRUE, useBytes = TRUE)
  into <- sub(option, "\\2", installers[named], perl = TRUE, useBytes = TRUE)
  if (!all(named) || lib %in% normalizePath(into, mustWork = FALSE)) {
    return(rep(TRUE, length(locks)))
  }
  open <- Sys.readlink(Sys.glob(c("/proc/[0-9]*/cwd", "/proc/[0-9]*/fd/*")))
  vapply(locks, function(lock) {
    any(grepl(lock, commands, fixed = TRUE, useBytes = TRUE)) ||
      any(startsWith(paste0(open, "/"), paste0(lock, "/")))
  }, NA)
}

# R's installer refuses to work on a package while there is a folder 00LOCK or 00LOCK-<package>, and
# leaves it when it is killed. In it is the package's former version: it gets back.
remove_left_locks <- function(lib) {
  lib <- normalizePath(lib)
  locks <- list.files(lib, "^00LOCK", full.names = TRUE)
  if (!length(locks)) return(invisible())
  held <- are_held(locks, lib)
  for (lock in locks[held]) message("deps: left, since a living process may use it: ", lock)
  for (lock in locks[!held]) {
    message("deps: removing what an interrupted install has left: ", lock)
    for (package in list.files(lock)) {
      former <- file.path(lock, package)
      now <- file.path(lib, package)
      if (!is_whole(former) || is_whole(now)) next
      unlink(now, recursive = TRUE)
      file.rename(former, now)
    }
    unlink(lock, recursive = TRUE)
  }
}
if (args[1L] %in% "locks") {
  remove_left_locks(args[[2L]])
  quit("no")
}

# As install.packages() in an interactive session: the library if it is writable, else the user's.
target <- function() {
  lib <- .libPaths()[1L]
  if (file.access(lib, 2L) == 0L) return(lib)
  lib <- strsplit(Sys.getenv("R_LIBS_USER"), .Platform$path.sep, fixed = TRUE)[[1L]]
  lib <- path.expand(if (length(lib)) lib[1L] else "~/R/library")
  if (!dir.exists(lib) && !dir.create(lib, recursive = TRUE)) {
    stop("the library ", lib, " cannot be made", call. = FALSE)
  }
  .libPaths(c(lib, .libPaths()))
  lib
}

if (args[1L] %in% c("newer", "models")) {
  lib <- args[[2L]]
  dir.create(lib, showWarnings = FALSE, recursive = TRUE)
  .libPaths(c(lib, if (args[[1L]] == "models") args[[3L]], .libPaths()))
  wanted <- if (args[[1L]] == "models") c(
    checkmate = "2.3.0", tune = "2.0.0", parsnip = "1.3.0", rsample = "1.3.0", mlr3 = "1.0.0"
  ) else c(
    later = "1.4.0", future = "1.40.0", future.tests = "1.0.0", future.apply = "1.20.0",
    furrr = "0.3.1", doFuture = "1.0.0", doRNG = "1.8.0", chromote = "0.3.0"
  )
  more <- c(
    future.mirai = "1.0.0", crew = "1.0.0", purrr = "1.1.0", carrier = "0.3.0", shiny = "1.8.1",
    RUnit = "0.4.0", otelsdk = "0.2.0", targets = "1.10.0"
  )
  wanted <- lacking(c(wanted, if ("adapters" %in% args) more))
  if (!length(wanted)) quit("no")
  repos <- getOption("repos")
  if (!length(repos) || any(repos == "@CRAN@")) quit("no", 1L)
  message("deps: installing ", toString(wanted), " into ", lib)
  cores <- max(1L, parallel::detectCores(), na.rm = TRUE)
  remove_left_locks(lib)
  utils::install.packages(wanted, lib = lib, Ncpus = cores, quiet = TRUE)
  there <- vapply(file.path(lib, wanted), is_whole, NA)
  quit("no", if (all(there)) 0L else 1L)
}

absent <- lacking(needed)
# BiocParallel is not on CRAN: Debian's, or by hand
if ("install" %in% args) absent <- setdiff(absent, "BiocParallel")
if ("install" %in% args && length(absent)) {
  repos <- getOption("repos")
  if (!length(repos) || any(repos == "@CRAN@")) {
    if (!length(setdiff(absent, names(more)))) {
      message("deps: missing, so that some tests or pages are left out: ", toString(absent),
              ". No repository is configured to install from")
      quit("no")
    }
    stop("missing: ", toString(absent), ". No repository is configured to install from: ",
         "set options(repos = ) in .Rprofile, or install them by other means", call. = FALSE)
  }
  lib <- target()
  message("deps: installing ", toString(absent), " from the configured repository into ", lib)
  # testthat needs fs, which brings libuv along but uses it only when told to
  if (is.na(Sys.getenv("USE_BUNDLED_LIBUV", NA))) Sys.setenv(USE_BUNDLED_LIBUV = "1")
  cores <- max(1L, parallel::detectCores(), na.rm = TRUE)
  remove_left_locks(lib)
  utils::install.packages(absent, lib = lib, Ncpus = cores, quiet = TRUE)
  absent <- lacking(needed)
  if (length(setdiff(absent, names(more)))) {
    stop("could not be installed: ", toString(absent), call. = FALSE)
  }
  if (length(absent)) message("deps: cannot be had: ", toString(absent), "; going on without")
} else if ("missing" %in% args && length(absent)) {
  cat(absent, sep = "\n")
}
