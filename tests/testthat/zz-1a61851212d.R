outside_checks_only()
slurm_there <- NULL
time_limit <- NULL
needs_slurm <- function() {
    if (!is.null(slurm_there)) 
        return()
    slurm_there <<- slurm_or_skip()
    time_limit <<- run_into_time_limit()
}
run_into_time_limit <- function() {
    job <- paste("slurm(1, 2, 60, partition = 'high', name = 'limit', rscript_args = '--limit',", 
        "folder = '%s')")
    start_script(c(sprintf(paste0("cl <- make_cluster(", job, 
        ")"), slurm_there$folder), "job <- paste0('JobId=', cl[[1]]$info$jobs[[1]]$number)", 
        "end <- format(Sys.time() + 1, 'EndTime=%Y-%m-%dT%H:%M:%S')", 
        "system2('scontrol', c('update', job, end))", "e <- tryCatch(cluster_map(cl, 1:2, function(i) Sys.sleep(100)), error = identity)", 
        "cat('cause=', e$cause, '\\ntext=', conditionMessage(e), '\\n', sep = '')", 
        "stop_cluster(cl)", "cat('done\\n')"))
}
where <- function(cl) vapply(parallel::clusterCall(cl, Sys.info), 
    `[[`, "", "nodename")
steps_of <- function(job) {
    steps <- of_slurm("squeue", "-h", "-s", "-j", job, "-o", 
        "%i %j")
    grep("\\.(extern|batch|interactive) ", steps, value = TRUE, 
        invert = TRUE)
}
expect_nothing_runs <- function() {
    left <- "not looked"
    eventually({
        left <- processes_of_jobs(slurm_there)
        !length(left)
    }, 20)
    testthat::expect_identical(left, character())
}
shared_folder <- function() {
    folder <- file.path(slurm_there$folder, "shared")
    dir.create(folder, showWarnings = FALSE)
    folder
}
job_state <- function(job) clutch:::slurm_job(job)$JobState
ended_in_map <- function(cl, deed, ..., env = parent.frame()) {
    system(sprintf("(sleep 1.5; %s) > /dev/null 2>&1 &", deed))
    tryCatch(cluster_map(cl, 1:8, function(i) Sys.sleep(60), 
        .chunk = 1, ...), error = identity)
}
test_that("launcher(): its folder goes also while somebody makes files in it", 
    {
        linux_only()
        folder <- tempfile("launcher-")
        dir.create(folder)
        on.exit(unlink(folder, recursive = TRUE))
        writer <- c("cd %s/* || exit", "for k in {1..99999}; do echo > \"$PWD/$0-$k\" || exit; done")
        start_writers <- function() {
            script <- sprintf(paste(writer, collapse = "; "), 
                folder)
            for (i in 1:3) system(paste("bash -c", shQuote(script), 
                i, "> /dev/null 2>&1 &"))
            eventually(length(list.files(folder, recursive = TRUE)) > 
                100L)
        }
        launch <- sprintf("launcher('{script} &', folder = '%s')", 
            folder)
        s <- start_script(c(sprintf("cl <- make_cluster(%s)", 
            launch), "cat('ready\\n')", "Sys.sleep(600)"))
        expect_true(said(s, "^ready", 60))
        expect_true(start_writers())
        tools::pskill(s$pid, 9L)
        expect_true(ends(s))
        expect_true(eventually(!length(list.files(folder))))
        cl <- make_cluster(launcher("{script} &", folder = folder))
        info <- cl[[1L]]$info
        keeper <- info$keeper
        info$keeper <- NULL
        expect_true(start_writers())
        stop_cluster(cl)
        expect_true(eventually(!length(list.files(folder))))
        .Call(clutch:::ffi_nodes_stop, keeper, 0, 2)
    })
