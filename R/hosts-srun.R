# This file reads what srun prints of its tasks: the command of slurm(), and perhaps that of
# hosts_command().

# Such a line says that tasks have ended: on which hosts, which tasks, how.
task_ended <- "^srun: error: ([^ ]+): tasks? ([0-9,-]+): (.*)"

# `lines` of a step with --label: those of task `number`, from 0 on, and those of no task. Lines of
# how tasks have ended are left out, see srun_says().
printed_by_task <- function(lines, number) {
  lines <- grep(task_ended, lines, value = TRUE, invert = TRUE)
  lines <- grep("^[0-9]+(;.*)?$", lines, value = TRUE, invert = TRUE) # sbatch: number of the job
  of_task <- grepl("^ *[0-9]+: ", lines)
  mine <- grepl(sprintf("^ *%d: ", number), lines)
  sub("^ *[0-9]+: ", "", lines[mine | !of_task])
}

has_task_printed <- function(lines, number) any(grepl(sprintf("^ *%d: ", number), lines))

# How that task has ended on its host, in srun's words; none: it has not, as far as srun says.
srun_says <- function(lines, number) {
  ends <- grep(task_ended, lines, value = TRUE)
  tasks <- sub(task_ended, "\\2", ends)
  own <- vapply(tasks, function(range) number %in% numbers_of_range(range), NA)
  sub(task_ended, "on \\1: \\3", ends[own])
}

exit_code_of <- function(said) {
  if (!grepl("exit code [0-9]+", said[[1L]])) return(-1L)
  as.integer(sub(".*exit code ([0-9]+).*", "\\1", said[[1L]]))
}

# "0-2,5"
numbers_of_range <- function(range) {
  ends <- lapply(strsplit(strsplit(range, ",", fixed = TRUE)[[1L]], "-", fixed = TRUE), as.integer)
  unlist(lapply(ends, function(e) seq(e[[1L]], e[[length(e)]])))
}
