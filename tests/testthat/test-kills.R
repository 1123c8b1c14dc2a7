# SIGKILL at random instants while large vectors travel: to the session, a fork server, one node,
# all of them, or any of its processes, here and on other hosts. No process is left, no byte of
# shared memory, no file.
#
# CLUTCH_SEED repeats the choices; CLUTCH_EVENTS >= 10000 ('make chaos'): 8 nodes, vectors of 50 and
# 200 MB. CLUTCH_KILLS: how many sessions.

outside_checks_only()

many_kills <- as.integer(Sys.getenv("CLUTCH_EVENTS", "150")) >= 10000L
kills_wanted <- as.integer(Sys.getenv("CLUTCH_KILLS", if (many_kills) "200" else "8"))
kills_seed <- as.integer(Sys.getenv("CLUTCH_SEED", as.character(sample.int(1e6, 1L))))

text_of <- function(...) {
  tryCatch(suppressWarnings(readLines(file.path("/proc", ...), warn = FALSE)),
           error = function(e) character())
}
parent_of <- function(pid) {
  line <- text_of(pid, "stat")
  if (!length(line)) return(0L)
  as.integer(strsplit(sub("^.*\\) ", "", line[[1L]]), " ")[[1L]][[2L]])
}

# The shared memory that these processes have mapped, or have a descriptor of: number and name, as
# numbers of files on a disk come again.
shared_by <- function(pids, what = "memfd:clutch|clutch-data") {
  ours <- sprintf("(%s).*\\(deleted\\)$", what)
  unique(unlist(lapply(pids, function(pid) {
    mapped <- strsplit(grep(ours, text_of(pid, "maps"), value = TRUE), " +")
    fds <- list.files(file.path("/proc", pid, "fd"))
    names <- Sys.readlink(file.path("/proc", pid, "fd", fds))
    open <- which(grepl(ours, names))
    c(vapply(mapped, function(m) paste(m[[5L]], m[[6L]]), ""),
      vapply(open, function(k) {
        number <- sub("\\D+", "", grep("^ino:", text_of(pid, "fdinfo", fds[[k]]), value = TRUE))
        paste(c(number, sub(" .*", "", names[[k]])), collapse = " ")
      }, ""))
  })))
}
all_processes <- function() as.integer(list.files("/proc", "^[0-9]+$"))

# What is left of it, in words.
about <- function(pids) {
  vapply(pids, function(pid) {
    paste(c(sprintf("%d of %d:", pid, parent_of(pid)),
            gsub("\\s+", " ", grep("^(State|SigPnd|ShdPnd|SigBlk|SigIgn|Threads):",
                                   text_of(pid, "status"), value = TRUE)),
            "in", text_of(pid, "wchan"), text_of(pid, "stack"), text_of(pid, "cmdline"),
            "has", shared_by(pid)), collapse = " ")
  }, "")
}

children_of <- function(pids) {
  text <- unlist(lapply(pids, function(pid) text_of(pid, "task", pid, "children")))
  as.integer(unlist(strsplit(as.character(text), " +")))
}

# Whom to kill of the processes of `session`.
victims <- function(who, session) {
  servers <- children_of(session) # and what runs on its own
  nodes <- if (who %in% c("session", "server", "session, servers")) integer() else
    children_of(servers)
  all <- c(session, servers, nodes)
  one <- function(x) x[sample.int(length(x), min(1L, length(x)))]
  switch(who, session = session, server = one(servers), node = one(nodes), nodes = nodes,
         "session, servers" = c(session, servers), "session, nodes" = c(session, nodes),
         any = c(all[sample(c(TRUE, FALSE), length(all), replace = TRUE)], one(all)))
}

start_work <- function(kind, ...) {
  file <- tempfile(c("end-", "quit-"))
  s <- start_script(fixture = "kills", kind = kind, end = file[[1L]], quit = file[[2L]],
                    nodes = if (many_kills) 8 else 2, ...,
                    mb = if (!many_kills) 5 else if (kind %in% c("export", "share")) 200 else 50)
  c(s, list(end = file[[1L]], quit = file[[2L]]))
}

# At any time of the start and of what follows.
pause_before_kill <- function(s, kind) {
  if (stats::runif(1) < 0.8) said(s, if (kind == "start") "^begun" else "^ready", 60)
  Sys.sleep(stats::runif(1, 0, if (many_kills) 1.5 else 0.3))
}

# Kills one process of ours on some host, or each R that is there.
kill_there <- function(hosts, who) {
  name <- sample(hosts$names, 1L)
  # Not the login's shell with them: then ssh ends as if it had lost its own connection.
  all <- processes_on(hosts, name)
  if (who == "all there") all <- grep("/exec/R|clutch:", all, value = TRUE)
  pids <- as.integer(sub("^ *([0-9]+) .*", "\\1", all))
  if (who == "one there" && length(pids)) pids <- pids[sample.int(length(pids), 1L)]
  if (length(pids)) on_host(hosts, name, paste("kill -9", paste(pids, collapse = " ")))
}

# A folder on a host that nobody was left to remove goes at the next start there, if R had begun to
# be ours.
is_left_to_next <- function(hosts, left) {
  path <- file.path(hosts$folder, sub(": .*", "", left), "tmp", sub("^[^:]*: ", "", left))
  grepl(": Rtmp[^ /]*$", left) &
    (file.exists(file.path(path, "clutch-in-use")) | lengths(lapply(path, list.files)) == 0L)
}

# Kills and looks at what is left. Character: what is wrong.
kill_and_look <- function(kind, who, hosts = NULL, seconds = 20) {
  s <- start_work(kind, host_names = hosts$names, config = hosts$config)
  on.exit(unlink(c(s$end, s$quit, s$tmp), recursive = TRUE))
  wrong <- character()
  ended <- function(pids) eventually(!any(alive(pids)), seconds)
  for (k in seq_len(if (many_kills) 5L else 2L)) {
    pause_before_kill(s, kind)
    all <- processes_of(s)
    had <- shared_by(all)
    is_there <- endsWith(who, "there")
    chosen <- if (!is_there) victims(who, s$pid)
    if (is_there) kill_there(hosts, who) else tools::pskill(chosen, 9L)
    if (!ended(chosen)) wrong <- c(wrong, "not killed", about(chosen[alive(chosen)]))
    if (s$pid %in% chosen || length(wrong)) break
  }
  if (s$pid %in% chosen) {
    if (!eventually(length(processes_of(s)) == 0L, seconds)) {
      wrong <- c(wrong, "processes:", about(processes_of(s)))
    }
    left <- function() intersect(shared_by(all_processes()), had)
    # a process that is ending has it for a moment after it is none of these
    if (!eventually(!length(left()), seconds)) wrong <- c(wrong, "memory:", left())
  } else {
    file.create(s$end)
    if (!said(s, "^ended|^Error|halted", 60)) wrong <- c(wrong, "does not end")
    if (!any(grepl("^ended", lines_of(s)))) wrong <- c(wrong, utils::tail(lines_of(s), 5L))
    holders <- function() shared_by(processes_of(s), "clutch-data")
    if (!eventually(!length(holders()), seconds)) {
      wrong <- c(wrong, "memory after its end:", about(processes_of(s)))
    }
    file.create(s$quit)
    if (!ended(s$pid)) wrong <- c(wrong, "does not quit", about(s$pid))
    if (!eventually(length(processes_of(s)) == 0L, seconds)) {
      wrong <- c(wrong, "processes after its end:", about(processes_of(s)))
    }
  }
  # where all are killed at once nobody is there to remove a folder; and what of a session that has
  # said nothing yet is its own is not known
  is_known <- any(grepl("^session=", lines_of(s)))
  if (is_known && who %in% c("session", "server", "node", "nodes") &&
      !eventually(!length(left_in(s)), seconds)) {
    wrong <- c(wrong, "files:", list.files(s$tmp, recursive = TRUE, include.dirs = TRUE))
  }
  if (!is.null(hosts)) {
    left <- function() {
      left <- left_on(hosts)
      if (is_there) left[!is_left_to_next(hosts, left)] else left
    }
    if (!eventually(!length(left()), seconds)) wrong <- c(wrong, "on hosts:", left())
    unlink(file.path(hosts$folder, hosts$names, "tmp", "*"), recursive = TRUE)
  }
  for (p in processes_of(s)) tools::pskill(p, 9L)
  if (length(wrong)) c(sprintf("%s, %s", kind, who), wrong)
}

test_kills <- function(kinds, who, times, hosts = NULL) {
  all <- expand.grid(kind = kinds, who = who, stringsAsFactors = FALSE)
  all <- all[sample.int(nrow(all)), ]
  for (k in seq_len(times)) {
    row <- all[(k - 1L) %% nrow(all) + 1L, ]
    wrong <- kill_and_look(row$kind, row$who, hosts)
    expect_identical(as.character(wrong), character(), info = paste("seed", kills_seed))
  }
}

test_that("whoever is killed when, no process, no shared memory and no file is left", {
  linux_only()
  set.seed(kills_seed)
  kinds <- c("export", "elements", "results", "share", "preload", "submit", "start", "spawn", "tcp")
  who <- c("session", "server", "node", "nodes", "session, servers", "session, nodes", "any")
  test_kills(kinds, who, kills_wanted)
})

test_that("nor on other hosts", {
  linux_only()
  long_test()
  set.seed(kills_seed)
  hosts <- hosts_or_skip(c("alpha", "beta"))
  on.exit(stop_hosts(hosts))
  who <- c("session", "server", "node", "nodes", "session, servers", "any", "one there",
           "one there", "all there")
  test_kills("hosts", who, ceiling(kills_wanted / 4), hosts)
})
