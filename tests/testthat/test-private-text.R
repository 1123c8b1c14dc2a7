# Secret and keys on their way to a host.

outside_checks_only()

# In how many places of its memory, as far as it can be written to, a process has this text.
times_in_memory <- function(pid, text) {
  maps <- readLines(file.path("/proc", pid, "maps"))
  maps <- grep(" rw", maps, fixed = TRUE, value = TRUE)
  maps <- grep("[vvar]", maps, fixed = TRUE, value = TRUE, invert = TRUE)
  memory <- file(file.path("/proc", pid, "mem"), "rb", raw = TRUE)
  on.exit(close(memory))
  number <- function(hex) sum(strtoi(strsplit(hex, "")[[1L]], 16L) * 16^((nchar(hex) - 1):0))
  found <- vapply(strsplit(sub(" .*", "", maps), "-", fixed = TRUE), function(range) {
    at <- number(range[[1L]])
    n <- number(range[[2L]]) - at
    if (n > 5e8) return(0L)
    seek(memory, at)
    length(grepRaw(text, readBin(memory, "raw", n), fixed = TRUE, all = TRUE))
  }, 1L)
  sum(found)
}

test_that("no process of a cluster has the secret as text, and nodes have no key", {
  linux_only()
  skip_if(Sys.info()[["effective_user"]] != "root", "only root reads the memory of others")
  folder <- tempfile("folder-")
  copy <- tempfile("settings-")
  on.exit(unlink(c(folder, copy), recursive = TRUE))
  s <- start_script(c(
    sprintf("x <- hosts_command('cp %s/cluster-*/settings-1 %s && {command}', folder = '%s')",
            folder, copy, folder),
    "cl <- make_cluster(x)",
    "cat('node=', parallel::clusterCall(cl, Sys.getpid)[[1L]], '\\n', sep = '')",
    "cat('ready\\n')", "marked <- paste(rep('a text', 9), collapse = '+')", "Sys.sleep(100)"
  ))
  expect_true(said(s, "^ready", 60))
  known <- secrets_in(copy)
  all <- processes_of(s)
  is_r <- vapply(all, function(p) readLines(file.path("/proc", p, "comm")) == "R", NA)
  expect_gte(sum(is_r), 5L) # session, its fork server, link process, proxy, fork server, node
  # the text is found where there is one
  expect_gt(times_in_memory(s$pid, paste(rep("a text", 9), collapse = "+")), 0L)
  for (p in all[is_r]) {
    gone <- function(e) if (alive(p)) stop(e) # one that was there for a moment
    command <- tryCatch(suppressWarnings(readBin(file.path("/proc", p, "cmdline"), "raw", 1e4)),
                        error = gone)
    if (is.null(command)) next
    command <- rawToChar(replace(command, command == 0, charToRaw(" ")))
    expect_identical(times_in_memory(p, known[["secret"]]), 0L, info = command)
  }
  key <- strsplit(known[["own"]], "\n")[[1L]][[2L]]
  node <- as.integer(value_of(s, "node"))
  expect_identical(times_in_memory(node, key), 0L)
  tools::pskill(s$pid, 9L)
  expect_true(ends(s))
})

test_that("the last line of settings may have no end", {
  linux_only()
  lines <- c("f <- tempfile()", "cat('clutch host settings 1\\nlast', file = f)",
             "cat(.Call(clutch:::ffi_private_read, f, 'secret')$lines, '', sep = '\\n')",
             "cat('done=1\\n')")
  s <- start_limited("export MALLOC_PERTURB_=165", lines) # what is allocated is no zeros
  expect_true(said(s, "^done=1$", 60))
  expect_identical(lines_of(s)[1:2], c("clutch host settings 1", "last"))
})
