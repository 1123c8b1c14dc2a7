# Descriptions of nodes on other hosts, and the commands that are made of them.

plan <- function(...) print(launch_plan(...))

outside_of_slurm <- function(env = parent.frame()) {
  names <- c("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_JOB_CPUS_PER_NODE")
  old <- Sys.getenv(names, NA)
  back <- function() {
    Sys.unsetenv(names)
    if (any(!is.na(old))) do.call(Sys.setenv, as.list(old[!is.na(old)]))
  }
  do.call(on.exit, list(as.call(list(back)), add = TRUE), envir = env)
  Sys.unsetenv(names)
}

test_that("hosts by ssh", {
  expect_snapshot(plan(hosts(c("alpha", "me@beta"), each = 16), packages = "stats4"))
  expect_snapshot(plan(hosts("alpha", each = 2, port = 2222, user = "me", jump = "gate",
                             ssh = c("ssh", "-F", "my config"), tunnel = FALSE, listen = 11000,
                             rscript = "/opt/R/4.4/bin/Rscript", env = c(A = "it's"))))
  expect_snapshot(plan(hosts("alpha", modules = c("gcc", "R/4.4"), setup = "ulimit -v unlimited")))
  x <- hosts(c("a", "b", "a"), each = c(1, 2, 4))
  expect_identical(x$hosts, c("a", "b"))
  expect_identical(x$each, c(5L, 2L))
  expect_output(print(x), "2 hosts by ssh: a, b; nodes: 7, 2 to 5 on each")
})

test_that("hosts by Slurm, in an allocation and outside", {
  outside_of_slurm()
  expect_snapshot(plan(slurm(hosts = 4, each = 32, time = "2h", partition = "long",
                             folder = "/shared")))
  Sys.setenv(SLURM_JOB_ID = "17", SLURM_JOB_NUM_NODES = "2", SLURM_JOB_CPUS_PER_NODE = "8(x2)")
  expect_snapshot(plan(slurm()))
  expect_snapshot(plan(slurm(hosts = 1, each = 2, modules = "R")))
  Sys.setenv(SLURM_JOB_CPUS_PER_NODE = "8,4(x2)")
  expect_identical(slurm()$each, c(4L, 4L))
  expect_snapshot(plan(slurm(hosts = 1, each = 2, submit = TRUE, folder = "/shared")))
  expect_error(slurm(hosts = 3), "has 2 hosts, and `hosts` is 3", class = "clutch_argument")
})

test_that("hosts by a command of the user's", {
  expect_snapshot(plan(hosts_command("qsub -N {name} -pe smp {each} {script}", hosts = 2, each = 8,
                                     folder = "/shared")))
  expect_snapshot(plan(hosts_command("docker exec -i box{host} {command}", secret = "stdin")))
})

test_that("what is put into a template stays as it is", {
  line <- function(template, command = "run", script = "/a/job.sh") {
    words <- clutch:::shell_words
    clutch:::template_line(template, list(each = c(8, 4), name = "name"), 2L,
                           command = words(command), script = words(script))
  }
  expect_identical(line("q {host} {each} {name} {host}; {else}"), "q 2 4 name 2; {else}")
  expect_identical(line("q {command}", c("env", "A={name} {host}")), "q env 'A={name} {host}'")
  expect_identical(line("q {script}", script = "/my $files/{name}.sh"), "q '/my $files/{name}.sh'")
  expect_identical(line("q {script}"), "q /a/job.sh")
})

test_that("the command of one host is that among all", {
  x <- list(hosts(c("a", "b", "c"), port = 3), hosts_command("run {host} {command}", hosts = 3))
  for (x in x) {
    all <- clutch:::launches_of(x, TRUE)
    for (k in 1:3) expect_identical(clutch:::launches_of(x, TRUE, of = k), all[k])
  }
})

test_that("what a shell is given is what R gets", {
  linux_only()
  folder <- tempfile("shell-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  # a program in place of R, which says what it was given, and then what it reads
  program <- file.path(folder, "an R")
  settings <- c("a \"it's \\\\n\"", " b  'c' ", "*", "end")
  has_read <- file.path(folder, "read")
  writeLines(c("#!/bin/sh", "printf '%s\\n' \"$CLUTCH_STARTING\" \"$A\" \"$B\" \"$@\"", "cat",
               paste0(": > '", has_read, "'")), program)
  Sys.chmod(program, "755")
  env <- c(A = "it's $HOME; \"x\\\\y\"\n*", B = "")
  given <- c("1", strsplit(env[["A"]], "\n")[[1L]], "",
             "--default-packages=datasets,utils,grDevices,graphics,stats,methods", "-e",
             "clutch:::host_main()", settings)
  # the standard input goes on until the program has ended, as ssh's does
  input <- file.path(folder, "input")
  feed <- sprintf("{ cat %s; until [ -e %s ]; do sleep 0.1; done; }", input, has_read)
  says <- function(x, shell) {
    unlink(has_read)
    writeLines(c(clutch:::watched_start(), settings), input)
    launch <- clutch:::launches_of(x, TRUE)[[1L]]
    line <- launch$argv[[length(launch$argv)]]
    system(paste(feed, "|", shell, "-c", shQuote(line)), intern = TRUE)
  }
  for (shell in Filter(function(s) nzchar(Sys.which(s)), c("sh", "bash", "dash", "zsh", "fish"))) {
    expect_identical(says(hosts("a", rscript = program, env = env), shell), given, info = shell)
    with_setup <- hosts("a", rscript = program, setup = "export A=\"it's $((1 + 1))\"")
    expect_identical(says(with_setup, shell)[2L], "it's 2", info = shell)
    template <- hosts_command("{command}", rscript = program, env = env, secret = "stdin")
    expect_identical(says(template, shell), given, info = shell)
  }
  # a line that fails is the end
  failing <- hosts("a", rscript = program, setup = paste0(": > '", has_read, "'; false"))
  expect_identical(suppressWarnings(as.character(says(failing, "sh"))), character())
})

test_that("times as Slurm writes them", {
  time <- clutch:::slurm_time
  expect_identical(time(90), "00:01:30")
  expect_identical(time("90min"), "01:30:00")
  expect_identical(time("2h"), "02:00:00")
  expect_identical(time("1d12h"), "1-12:00:00")
  expect_identical(time("1-12:00:00"), "1-12:00:00")
  expect_identical(time("30:00"), "30:00")
  expect_identical(time("1.5 h"), "01:30:00")
  expect_null(time(NULL))
  for (bad in list("90", "2 hours", "", NA, -1, "h", c("1h", "2h"), Inf, "0h")) {
    expect_error(time(bad), class = "clutch_argument", info = deparse1(bad))
  }
})

test_that("arguments of no use are errors that name the argument", {
  outside_of_slurm()
  bad <- function(expr, pattern) {
    expect_error(expr, pattern, class = "clutch_argument")
  }
  bad(hosts(), "`hosts` is missing")
  bad(hosts(3), "names of hosts")
  bad(hosts("-oProxyCommand=x"), "no name of a host")
  bad(hosts("4"), "no name of a host")
  bad(hosts(c("a", "b"), each = 1:3), "`each`")
  bad(hosts("a", each = 1.5), "`each`")
  bad(hosts("a", eech = 3), "no argument `eech`: did you mean `each`")
  bad(hosts("a", 2, 3), "have to be named")
  bad(hosts("a", port = 1e5), "`port`")
  bad(hosts("a", listen = -1), "`listen`")
  bad(hosts("a", user = "a b"), "`user`")
  bad(hosts("a", jump = "-x"), "`jump`")
  bad(hosts("a", env = "x"), "`env`")
  bad(hosts("a", env = c("a-b" = "x")), "`env`")
  bad(hosts("a", modules = "x; rm"), "`modules`")
  bad(hosts("a", rscript = "~/R"), "`rscript`")
  bad(hosts("a", tunnel = "yes"), "`tunnel`")
  bad(slurm(), "needs `hosts` outside")
  bad(slurm(hosts = 1, submit = FALSE), "in no allocation")
  bad(slurm(hosts = 1, submit = "yes"), "`submit`")
  bad(slurm(hosts = 1, wait = "long"), "`wait`")
  bad(slurm(hosts = 1, wait = NULL), "`wait`")
  bad(slurm(hosts = 1, name = NULL), "`name`")
  bad(slurm(hosts = 1e10), "`hosts`")
  bad(slurm(nodes = 4, each = 32), "a number that stays is `hosts`")
  bad(slurm(hosts = 1, partition = "a b"), "`partition`")
  bad(slurm(hosts = 1, folder = "here"), "`folder`")
  bad(hosts_command(), "`template` is missing")
  bad(hosts_command("qsub x"), "`template`")
  bad(hosts_command(NULL), "`template`")
  bad(hosts_command("{command}", hosts = 0), "`hosts`")
  bad(hosts_command("{command}", hosts = NULL), "`hosts`")
  bad(hosts_command("{command}", wait = NULL), "`wait`")
  bad(hosts_command("{command}", name = NULL), "`name`")
  bad(hosts_command("{command}", secret = "argv"), "`secret`")
  bad(launch_plan(hosts("a"), "parallel"), "strategy \"parallel\" is not for nodes of hosts\\(\\)")
  bad(launch_plan(hosts("a"), rshcmd = "rsh"), "arguments of hosts\\(\\)")
})
