# Fork servers that stay for the user's next session: make_cluster(keep = ).
#
# CLUTCH_EVENTS from 10000 on ('make chaos'): 100 reinstallations of a package, in place of 10.

outside_checks_only()
is_chaos <- as.integer(Sys.getenv("CLUTCH_EVENTS", "300")) >= 10000L

# The folder in which they wait is the test's own, and so is that of temporary folders. What is
# there at the end was left behind.
keep_here <- function(env = parent.frame()) {
  linux_only()
  needs("proc")
  place <- tempfile("k-", tmpdir = "/tmp")
  dir.create(place, mode = "0700")
  dir.create(file.path(place, "tmp"))
  dir.create(file.path(place, "lib"))
  Sys.chmod(place, "0700")
  old <- Sys.getenv("CLUTCH_VIEW_FOLDER", NA)
  Sys.setenv(CLUTCH_VIEW_FOLDER = place)
  ends <- substitute({
    # one whose session has just ended is there in a moment
    eventually({
      clutch:::stop_kept_servers()
      !length(processes_with(paste0("CLUTCH_VIEW_FOLDER=", PLACE)))
    })
    if (is.na(OLD)) Sys.unsetenv("CLUTCH_VIEW_FOLDER") else Sys.setenv(CLUTCH_VIEW_FOLDER = OLD)
    unlink(PLACE, recursive = TRUE)
  }, list(OLD = old, PLACE = place))
  do.call(on.exit, list(ends, add = TRUE), envir = env)
  place
}

# Files of kept servers, and temporary folders.
left_in <- function(place) {
  c(list.files(place, "^kept"), list.files(file.path(place, "tmp")))
}

# What a session says that runs these lines, with these variables, and ends. `shell`: commands
# before.
session <- function(place, lines, env = character(), wd = place, shell = character(), wait = TRUE) {
  file <- tempfile(fileext = ".R")
  writeLines(c("library(clutch)", report_lines, lines), file)
  libs <- unique(c(file.path(place, "lib"), .libPaths()))
  env <- c(TMPDIR = file.path(place, "tmp"), R_LIBS = paste(libs, collapse = ":"), R_TESTS = "",
           R_PROFILE_USER = file.path(place, "no-profile"), env)
  out <- tempfile()
  command <- c(sprintf("cd %s", shQuote(wd)), shell,
               paste("exec env", paste0(names(env), "=", shQuote(env), collapse = " "),
                     shQuote(file.path(R.home("bin"), "Rscript")), shQuote(file)))
  system2("bash", c("-c", shQuote(paste(command, collapse = "; "))), stdout = out, stderr = out,
          wait = wait)
  if (wait) readLines(out) else out
}

# A session says what it has by lines "name=value".
report_lines <- c(
  "tell <- function(name, value) cat(name, '=', paste(value, collapse = ' '), '\\n', sep = '')",
  "tell('pid', Sys.getpid())",
  "server_of <- function(cl) {",
  "  handle <- clutch:::info_of(cl)$server$handle",
  "  .Call(clutch:::ffi_server_info, handle)$pid",
  "}"
)
text_of <- function(out) gsub("\\s+", " ", paste(out, collapse = " "))
said_by <- function(out, name) {
  line <- grep(paste0("^", name, "="), out, value = TRUE)
  sub("^[^=]*=", "", line)
}
a_session <- function(..., args = "keep = 900", more = character()) {
  session(..., lines = c(sprintf("cl <- make_cluster(2, %s)", args),
                         "tell('server', server_of(cl))",
                         "tell('nodes', parallel::clusterEvalQ(cl, Sys.getpid()))", more))
}
server_in <- function(out) as.integer(said_by(out, "server"))

kept <- function() clutch:::kept_servers()
one_waits <- function() eventually(nrow(kept()) == 1L)
nobody_waits <- function(place) {
  eventually(nrow(kept()) == 0L && !length(left_in(place)))
}

test_that("the next session gets the server with its packages, and nothing of the session before", {
  place <- keep_here()
  args <- "keep = 900, packages = c('stats4', 'splines')"
  more <- c("tell('search', parallel::clusterEvalQ(cl, search())[[1]])",
            "tell('workspace', parallel::clusterEvalQ(cl, ls(globalenv(), all.names = TRUE))[[1]])",
            "tell('random', parallel::clusterEvalQ(cl, runif(1)))",
            "tell('loaded', isNamespaceLoaded('stats4'))")
  first <- a_session(place, args = args, more = c(more, "here <- 1",
    "parallel::clusterExport(cl, 'here')", "cluster_setup(cl, there <- 2)",
    "x <- cluster_map(cl, 1:3, function(i) { assign('z', i, globalenv()); options(mine = i) })"))
  expect_true(one_waits())
  expect_identical(kept()$pid, server_in(first))
  expect_identical(kept()$packages, "stats4, splines")
  for (i in 1:3) {
    out <- a_session(place, args = args, more = c(more,
      "tell('option', is.null(parallel::clusterEvalQ(cl, getOption('mine'))[[1]]))"))
    expect_identical(server_in(out), server_in(first))
    expect_match(said_by(out, "search"), "package:splines package:stats4", fixed = TRUE)
    expect_identical(said_by(out, "loaded"), "FALSE")
    expect_identical(said_by(out, "option"), "TRUE")
    expect_false(grepl("here|there|z", said_by(out, "workspace")))
    for (differs in c("nodes", "random")) {
      expect_false(said_by(out, differs) == said_by(first, differs))
    }
    expect_false(any(grepl("fork server", out)))
    expect_true(one_waits())
  }
  jobs <- new_jobs_folder()
  on.exit(end_jobs(jobs), add = TRUE)
  expect_output(print(cluster_jobs()), "waits for the next session")
  expect_identical(nrow(attr(cluster_jobs(stop = TRUE), "kept")), 0L)
  expect_false(alive(server_in(first)))
  expect_true(nobody_waits(place))
})

test_that("a server is found whatever option OutDec is", {
  place <- keep_here()
  profile <- file.path(place, "comma")
  writeLines("options(OutDec = ',')", profile)
  first <- a_session(place, env = c(R_PROFILE_USER = profile))
  expect_true(one_waits())
  second <- a_session(place, env = c(R_PROFILE_USER = profile))
  expect_identical(server_in(second), server_in(first))
})

test_that("folder, variables and output of the nodes are the new session's", {
  place <- keep_here()
  other <- file.path(place, "other")
  dir.create(other)
  more <- c("tell('folder', parallel::clusterEvalQ(cl, getwd())[[1]])",
            "tell('var', parallel::clusterEvalQ(cl, Sys.getenv(c('MINE', 'OURS'), NA))[[1]])",
            "tell('pwd', parallel::clusterEvalQ(cl, Sys.getenv('PWD'))[[1]])",
            "own_tmp <- function() Sys.getenv('R_SESSION_TMPDIR') == tempdir()",
            "tell('tmp', parallel::clusterCall(cl, own_tmp)[[1]])",
            "tell('size', parallel::clusterEvalQ(cl, Sys.getenv('R_NSIZE', NA))[[1]])",
            "tell('umask', format(parallel::clusterEvalQ(cl, Sys.umask(NA))[[1]]))",
            "x <- cluster_map(cl, 1, function(i) cat('printed\\n'))")
  first <- a_session(place, more = more, env = c(MINE = "1"), shell = "umask 077")
  expect_true(one_waits())
  second <- a_session(place, more = more, env = c(OURS = "2", SHLVL = "7"), wd = other,
                      shell = "umask 022")
  expect_identical(server_in(second), server_in(first))
  expect_identical(said_by(first, "var"), "1 NA")
  expect_identical(said_by(second, "var"), "NA 2")
  expect_identical(said_by(second, "folder"), normalizePath(other))
  expect_identical(said_by(second, "pwd"), normalizePath(other))
  expect_identical(said_by(second, "tmp"), "TRUE")
  expect_identical(said_by(second, "size"), "NA")
  expect_identical(said_by(second, "umask"), "22")
  expect_true("printed" %in% second)
})

test_that("the day is told on which a server ends, where that is not soon", {
  server <- data.frame(pid = 1L, since = Sys.time(), until = Sys.time() + c(60, 1e6), packages = "")
  expect_output(clutch:::print_kept(server[1L, ]), "until [0-9:]{8}, pid 1")
  expect_output(clutch:::print_kept(server[2L, ]),
                "until [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}, pid")
})

test_that("by default, and with 0, nothing stays", {
  place <- keep_here()
  for (args in c("keep = 0", "outfile = ''")) {
    out <- a_session(place, args = args)
    expect_true(eventually(!alive(server_in(out))))
    expect_true(nobody_waits(place))
  }
})

test_that("it ends when its time is over, at SIGTERM, and by fork_server_stop()", {
  place <- keep_here()
  out <- a_session(place, args = "keep = 0.5")
  expect_true(eventually(!alive(server_in(out))))
  expect_true(nobody_waits(place))
  out <- a_session(place)
  expect_true(one_waits())
  tools::pskill(server_in(out), 15L)
  expect_true(eventually(!alive(server_in(out))))
  expect_true(nobody_waits(place))
  out <- a_session(place, more = c("fork_server_stop(all = TRUE)"))
  expect_true(eventually(!alive(server_in(out))))
  expect_true(nobody_waits(place))
  out <- a_session(place)
  expect_true(one_waits())
  again <- a_session(place, more = c("fork_server_stop(all = TRUE)"))
  expect_identical(server_in(again), server_in(out))
  expect_true(eventually(!alive(server_in(out))))
  expect_true(nobody_waits(place))
})

test_that("it stays when its session is killed, or did nothing for long", {
  place <- keep_here()
  out <- a_session(place, more = "tools::pskill(Sys.getpid(), 9L)")
  expect_true(one_waits())
  expect_identical(kept()$pid, server_in(out))
  expect_false(any(alive(as.integer(strsplit(said_by(out, "nodes"), " ")[[1L]]))))
  clutch:::stop_kept_servers()
  out <- session(place, c("options(clutch.idle_limit = 0.3)", "cl <- make_cluster(2, keep = 900)",
    "tell('server', server_of(cl))", "rm(cl)", "x <- gc()",
    "for (i in 1:1000) if (nrow(clutch:::kept_servers()) == 1L) break else Sys.sleep(0.01)",
    "cl <- make_cluster(2, keep = 900)", "tell('again', server_of(cl))",
    "tell('works', length(cluster_map(cl, 1:2, function(i) i)))"))
  expect_identical(said_by(out, "again"), said_by(out, "server"))
  expect_identical(said_by(out, "works"), "2")
  expect_true(one_waits())
})

test_that("the server of a session that was polite serves the next one as any other", {
  skip_if_not(file.exists("/proc/self/autogroup"), "no autogroups")
  place <- keep_here()
  polite <- c("options(clutch.polite = TRUE)", "x <- cluster_map(cl, 1:2, function(i) i)")
  tell <- "tell('priority', readLines(sprintf('/proc/%d/autogroup', server_of(cl))))"
  out <- a_session(place, more = c(polite, tell))
  skip_if_not(endsWith(said_by(out, "priority"), " nice 19"), "the system does not let it")
  expect_true(one_waits())
  again <- a_session(place, more = tell)
  expect_identical(server_in(again), server_in(out))
  expect_match(said_by(again, "priority"), " nice 0$")
})

test_that("one whose time is over before it waits does not wait for ever", {
  place <- keep_here()
  out <- a_session(place, args = "keep = 1e-6")
  expect_true(eventually(!alive(server_in(out))))
  expect_true(nobody_waits(place))
})

test_that("stop_cluster() lets others have it, while the session lives", {
  place <- keep_here()
  mark <- file.path(place, "mark")
  out <- session(place, wait = FALSE, c(
    "cl <- make_cluster(2, keep = 900)", "other <- make_cluster(2, keep = 900)",
    "tell('server', server_of(cl))",
    "tell('shared', server_of(other) == server_of(cl))",
    "stop_cluster(cl)", "tell('waits', nrow(clutch:::kept_servers()))",
    "tell('works', length(cluster_map(other, 1:2, function(i) i)))",
    "stop_cluster(other)", "tell('waits', nrow(clutch:::kept_servers()))",
    "cl <- make_cluster(1, keep = 900)", "tell('again', server_of(cl))", "stop_cluster(cl)",
    sprintf("file.create('%s')", mark),
    sprintf("while (file.exists('%s')) Sys.sleep(0.01)", mark),
    "cl <- make_cluster(2, keep = 900)", "tell('own', server_of(cl))"))
  expect_true(eventually(file.exists(mark)))
  taken <- a_session(place, more = c(
    sprintf("unlink('%s')", mark),
    sprintf("while (!any(grepl('^own=', readLines('%s', warn = FALSE)))) Sys.sleep(0.05)", out)))
  said <- readLines(out, warn = FALSE)
  expect_identical(said_by(said, "shared"), "TRUE")
  expect_identical(said_by(said, "waits"), c("0", "1"))
  expect_identical(said_by(said, "works"), "2")
  expect_identical(said_by(said, "again"), said_by(said, "server"))
  expect_identical(server_in(taken), as.integer(said_by(said, "server")))
  expect_false(said_by(said, "own") == said_by(said, "server"))
  expect_true(eventually(nrow(kept()) == 2L))
})

# ---- what has to be the same ----

test_that("a session that differs starts its own and says why", {
  place <- keep_here()
  args <- "keep = 900, packages = 'stats4'"
  first <- a_session(place, args = args)
  expect_true(one_waits())
  differs <- function(text, ...) {
    out <- a_session(place, args = args, ...)
    expect_match(text_of(out), text, info = text)
    expect_false(server_in(out) == server_in(first))
    expect_true(eventually(server_in(out) %in% kept()$pid))
    tools::pskill(server_in(out), 15L)
    expect_true(eventually(identical(kept()$pid, server_in(first))))
  }
  differs("environment variable MINE differs", env = c(MINE = "1"))
  differs("the working directory differs", wd = tempdir())
  differs("the limits \\(ulimit\\) differ", shell = "ulimit -c 0; ulimit -s 4096")
  differs("a startup file of R differs", env = c(R_ENVIRON_USER = file.path(place, "Renviron")),
          shell = sprintf("echo A=1 > %s/Renviron", place))
  dir.create(file.path(place, "lib2"))
  differs(".libPaths", env = c(R_LIBS_USER = file.path(place, "lib2")))
  if (nzchar(Sys.which("taskset")) && clutch:::available_cores() > 1L) {
    differs("processors differ", shell = "taskset -pc 0 $$")
  }
  # one with other packages is no concern of it
  out <- a_session(place, args = "keep = 900, packages = 'splines'")
  expect_false(any(grepl("fork server", out)))
  expect_true(eventually(nrow(kept()) == 2L))
  again <- a_session(place, args = args)
  expect_identical(server_in(again), server_in(first))
})

test_that("control group and namespaces have to be the same", {
  place <- keep_here()
  same <- clutch:::stay_wanted(clutch:::default_server_spec(), c(PATH = "/bin"), list(), FALSE)
  expect_null(clutch:::differences(same, same))
  other <- same
  other$groups <- "0::/elsewhere"
  other$namespaces[[1L]] <- "cgroup:[1]"
  other$who <- sub("^Groups:.*", "Groups: 7", other$who)
  expect_identical(clutch:::differences(same, other),
                   c("user, groups, capabilities or processors differ", "the control group differs",
                     "the namespaces differ"))
  skip_if_not(system2("unshare", c("-n", "true"), stdout = FALSE, stderr = FALSE) == 0L,
              "no other namespaces can be made")
  first <- a_session(place)
  expect_true(one_waits())
  file <- file.path(place, "s.R")
  writeLines(c("library(clutch)", report_lines, "cl <- make_cluster(1, keep = 1)",
               "tell('server', server_of(cl))"), file)
  out <- session(place, shell = sprintf(
    paste("export TMPDIR=%1$s/tmp R_LIBS=%2$s R_TESTS= R_PROFILE_USER=%1$s/no-profile;",
          "exec unshare -n %3$s %4$s"), place,
    paste(c(file.path(place, "lib"), .libPaths()), collapse = ":"),
    file.path(R.home("bin"), "Rscript"), file), lines = character())
  expect_match(text_of(out), "the namespaces differ")
  expect_false(server_in(out) == server_in(first))
})

# ---- packages ----

install_numbered <- function(place, number) {
  suppressMessages(install_made_package("numbered", sprintf("value <- function() %d", number),
                                        file.path(place, "lib"), "export(value)"))
  unlink(file.path(place, "lib", "src"), recursive = TRUE)
}

value_in <- function(place, ...) {
  out <- a_session(place, args = "keep = 900, packages = 'numbered'", ...,
                   more = "tell('value', unlist(parallel::clusterEvalQ(cl, value())))")
  list(value = said_by(out, "value"), server = server_in(out), out = out)
}

test_that("a package that was installed again is never the old one", {
  place <- keep_here()
  install_numbered(place, 0L)
  before <- value_in(place)
  for (i in seq_len(if (is_chaos) 100L else 10L)) {
    expect_true(one_waits())
    install_numbered(place, i)
    now <- value_in(place)
    expect_identical(now$value, paste(i, i))
    expect_match(text_of(now$out), "package numbered was installed again")
    expect_false(now$server == before$server)
    expect_true(eventually(!alive(before$server))) # it is of no more use
    before <- now
  }
  expect_true(one_waits())
  again <- value_in(place)
  expect_identical(again$server, before$server)
  expect_identical(again$value, before$value)
})

test_that("a package that was put in front, changed in place, or removed counts as another one", {
  place <- keep_here()
  install_numbered(place, 1L)
  front <- file.path(place, "front")
  dir.create(front)
  env <- c(R_LIBS = paste(c(front, file.path(place, "lib"), .libPaths()), collapse = ":"))
  first <- value_in(place, env = env)
  expect_true(one_waits())
  expect_identical(value_in(place, env = env)$server, first$server)
  expect_true(one_waits())
  # the same files, with times that are the old ones: found first
  file.copy(file.path(place, "lib", "numbered"), front, recursive = TRUE, copy.date = TRUE)
  second <- value_in(place, env = env)
  expect_false(second$server == first$server)
  expect_true(one_waits())
  # the same size and date
  rdb <- file.path(front, "numbered", "R", "numbered.rdb")
  date <- file.mtime(rdb)
  bytes <- readBin(rdb, "raw", file.size(rdb))
  writeBin(bytes, rdb)
  Sys.setFileTime(rdb, date)
  third <- value_in(place, env = env)
  expect_false(third$server == second$server)
  expect_true(one_waits())
  unlink(file.path(front, "numbered"), recursive = TRUE)
  fourth <- value_in(place, env = env)
  expect_false(fourth$server == third$server)
  expect_identical(fourth$value, "1 1")
  expect_true(eventually(!alive(third$server)))
})

# A package on which others depend is loaded, too.
test_that("a package that changes while the server loads it makes it of no use", {
  place <- keep_here()
  install_numbered(place, 1L)
  rds <- "f <- system.file('Meta', 'package.rds', package = 'numbered'); saveRDS(readRDS(f), f)"
  suppressMessages(install_made_package("above", c(
    "here <- numbered::value()",
    sprintf(".onLoad <- function(...) if (file.exists('%s/now')) { %s }", place, rds)),
    file.path(place, "lib"), c("import(numbered)", "export(here)")))
  session_above <- function() a_session(place, args = "keep = 900, packages = 'above'")
  file.create(file.path(place, "now"))
  first <- session_above()
  expect_true(one_waits())
  unlink(file.path(place, "now"))
  second <- session_above()
  expect_match(text_of(second), "package numbered was installed again")
  expect_false(server_in(second) == server_in(first))
})

# ---- who may not, and what goes wrong ----

test_that("of two sessions at the same time exactly one gets it", {
  place <- keep_here()
  for (i in 1:4) {
    first <- a_session(place)
    expect_true(one_waits())
    mark <- file.path(place, "go")
    lines <- c(sprintf("while (!file.exists('%s')) Sys.sleep(0.001)", mark),
               "cl <- make_cluster(2, keep = 0.1)", "tell('server', server_of(cl))",
               "tell('works', length(cluster_map(cl, 1:2, function(i) i)))", "tell('done', 1)",
               "Sys.sleep(0.5)")
    outs <- vapply(1:3, function(k) session(place, lines, wait = FALSE), "")
    Sys.sleep(0.7) # they have loaded the package; without it the test has less to find
    file.create(mark)
    all_said <- function(name) {
      unlist(lapply(outs, function(out) said_by(readLines(out, warn = FALSE), name)))
    }
    expect_true(eventually(length(all_said("done")) == 3L))
    expect_identical(sum(all_said("server") == as.character(server_in(first))), 1L)
    expect_identical(all_said("works"), rep("2", 3L))
    unlink(mark)
    expect_true(nobody_waits(place))
  }
})

test_that("one that was killed is cleared away, without a delay", {
  place <- keep_here()
  first <- a_session(place)
  expect_true(one_waits())
  tools::pskill(server_in(first), 9L)
  expect_true(eventually(!alive(server_in(first))))
  expect_length(list.files(place, "^kept"), 3L)
  second <- a_session(place)
  expect_false(server_in(second) == server_in(first))
  expect_false(any(grepl("fork server", second)))
  expect_true(one_waits())
  tools::pskill(server_in(second), 9L)
  expect_true(eventually(!alive(server_in(second))))
  expect_identical(nrow(kept()), 0L)
  expect_length(left_in(place), 0L)
})

test_that("one that is stopped keeps no session waiting", {
  place <- keep_here()
  first <- a_session(place)
  expect_true(one_waits())
  system2("kill", c("-STOP", server_in(first)))
  out <- a_session(place, more = "tell('took', clutch:::info_of(cl)$took)")
  expect_match(text_of(out), "it is stopped")
  expect_lt(as.numeric(said_by(out, "took")), 20)
  expect_false(server_in(out) == server_in(first))
  expect_true(eventually(nrow(kept()) == 2L))
  expect_identical(clutch:::stop_kept_servers(), 2L)
  expect_false(any(alive(c(server_in(first), server_in(out)))))
  expect_length(left_in(place), 0L)
})

test_that("another user gets nothing", {
  place <- keep_here()
  skip_if_not(system2("id", "-u", stdout = TRUE) == "0", "not root")
  skip_if_not(nzchar(Sys.which("setpriv")), "needs setpriv")
  first <- a_session(place)
  expect_true(one_waits())
  path <- file.path(place, sprintf("kept-%d", server_in(first)))
  file <- file.path(place, "other.R")
  writeLines(c(
    "library(clutch)", "cat('uid', system('id -u', intern = TRUE), '\\n')",
    "cat('seen', nrow(clutch:::kept_servers()), '\\n')",
    sprintf("x <- .Call(clutch:::ffi_server_take, '%s', 1)", path),
    "cat('taken', if (is.character(x)) x else class(x), '\\n')",
    sprintf("x <- .Call(clutch:::ffi_kept_end, '%s', 1)", path),
    "cat('ended', x, '\\n')"
  ), file)
  as_other <- function() {
    system2("setpriv", c("--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/",
                         paste0("CLUTCH_VIEW_FOLDER=", place), "TMPDIR=/tmp",
                         paste0("R_LIBS=", paste(.libPaths(), collapse = ":")),
                         file.path(R.home("bin"), "Rscript"), file), stdout = TRUE, stderr = TRUE)
  }
  Sys.chmod(c(place, file), c("0755", "0644"), use_umask = FALSE)
  # what stands there can be read by all, as if somebody had opened the folder
  Sys.chmod(list.files(place, "^kept", full.names = TRUE), "0777", use_umask = FALSE)
  out <- as_other()
  skip_if_not(any(grepl("^uid 65534", out)), "no other user can load this package")
  expect_true("seen 0 " %in% out)
  expect_match(grep("^taken", out, value = TRUE), "no process of this user")
  expect_match(grep("^ended", out, value = TRUE), "no process of this user")
  expect_true(alive(server_in(first)))
  # a folder that is open to others is none
  second <- a_session(place)
  expect_false(server_in(second) == server_in(first))
  expect_true(eventually(!alive(server_in(second))))
  Sys.chmod(place, "0700", use_umask = FALSE)
  third <- a_session(place)
  expect_identical(server_in(third), server_in(first))
})

test_that("the server leaves nothing of a session in itself", {
  place <- keep_here()
  more <- c("x <- share(rnorm(1e6))", "y <- cluster_map(cl, 1:4, function(i) sum(x))",
            "s <- cluster_status(cl)")
  first <- a_session(place, more = more)
  expect_true(one_waits())
  mapped <- function() length(grep("memfd|clutch", readLines(sprintf("/proc/%d/maps", kept()$pid))))
  fds <- NULL
  for (i in 1:6) {
    out <- a_session(place, more = more)
    expect_identical(server_in(out), server_in(first))
    expect_true(one_waits())
    fds <- c(fds, open_fds(kept()$pid))
    expect_true(eventually(length(list.files(clutch:::kept_here()[[1L]]$tmp)) == 0L))
  }
  expect_identical(length(unique(fds)), 1L)
  expect_length(list.files(file.path(place, "tmp")), 1L) # the server's own
})

test_that("what cannot be kept is an error, and a profile that does much is no server of others", {
  place <- keep_here()
  expect_error(make_cluster(1, keep = 900, preload = x <- 1), "without `preload`",
               class = "clutch_argument")
  expect_error(make_cluster(1, "spawn", keep = 900), "fork_server", class = "clutch_argument")
  expect_error(launch_plan(hosts("there"), keep = 900), "on this machine",
               class = "clutch_argument")
  for (bad in list(-1, Inf, "1", NA, c(1, 2))) {
    expect_error(make_cluster(1, keep = bad), "number of seconds", class = "clutch_argument")
  }
  old <- options(clutch.keep = Inf)
  expect_error(make_cluster(1), "option 'clutch.keep' has to be a number of seconds",
               class = "clutch_argument")
  options(old)
  profile <- file.path(place, "profile")
  writeLines("options(digits = 5); Sys.setenv(MINE = 'a')", profile)
  first <- a_session(place, env = c(R_PROFILE_USER = profile))
  expect_true(one_waits())
  second <- a_session(place, env = c(R_PROFILE_USER = profile))
  expect_identical(server_in(second), server_in(first))
  expect_true(one_waits())
  writeLines("options(digits = 6); Sys.setenv(MINE = 'a')", profile)
  third <- a_session(place, env = c(R_PROFILE_USER = profile))
  expect_match(text_of(third), "a startup file of R differs")
  expect_true(eventually(nrow(kept()) == 2L))
  writeLines("source('helpers.R')", profile)
  writeLines("f <- 1", file.path(place, "helpers.R"))
  clutch:::stop_kept_servers()
  fourth <- a_session(place, env = c(R_PROFILE_USER = profile))
  expect_match(text_of(fourth), "does more than set options")
  expect_true(nobody_waits(place))
})

test_that("option clutch.keep does it for all, also for the session's own cluster", {
  place <- keep_here()
  lines <- c("options(clutch.keep = 900)",
             "x <- cluster_map(NULL, 1:4, function(i) Sys.getpid())",
             "tell('server', server_of(clutch:::the$own$cl))")
  first <- session(place, lines)
  expect_true(one_waits())
  second <- session(place, lines)
  expect_identical(server_in(second), server_in(first))
  preload <- session(place, c("options(clutch.keep = 900)",
                              "cl <- make_cluster(1, preload = x <- 1)",
                              "tell('server', server_of(cl))"))
  expect_true(eventually(!alive(server_in(preload))))
  expect_identical(nrow(kept()), 1L)
})

test_that("what a server tells of itself is read whatever option OutDec was", {
  path <- tempfile("kept-")
  old <- options(OutDec = ",")
  on.exit({
    options(old)
    unlink(paste0(path, "*"))
  })
  clutch:::write_kept(path, list(pid = 1L, since = 1764558000.25, until = 1764558600.5,
                                 place = "host, boot 4,5"))
  about <- clutch:::read_about(clutch:::about_path(path))
  expect_identical(about[c("pid", "since", "until", "place")],
                   list(pid = 1, since = 1764558000.25, until = 1764558600.5,
                        place = "host, boot 4,5"))
})
