# This runs on the host of a detached map, in the R that a question has started: see R/detach-ask.R.

answer_from_there <- function() {
  starting_is_over()
  answer <- tryCatch({
    con <- gzcon(file("stdin", "rb"))
    on.exit(close(con))
    question <- readRDS(con)
    if (question$version != own_version()) throw_other_version(question$version)
    list(value = commands_there[[question$command]](question$argument))
  }, error = function(e) e)
  out <- pipe("cat", "wb")
  writeBin(c(charToRaw(paste0(THERE_MARK, "\n")), serialize(answer, NULL, xdr = FALSE)), out)
  close(out)
  invisible()
}

commands_there <- list(
  submit = function(work) {
    entry <- submit_map(unpacked_work(work))
    list(id = basename(entry), job = job_of_entry(entry))
  },
  # of a map: how far it is, after it has been waited for
  status = function(about) {
    entry <- entry_with_id(about$id)
    if (is.null(entry)) return(list(state = "gone"))
    end <- clock() + about$wait
    while (!has_ended_as(state_of_entry(entry)) && clock() < end) Sys.sleep(0.05)
    status_of_entry(entry)
  },
  values = function(id) {
    entry <- entry_with_id(id)
    if (!is.null(entry)) journal_has(job_of_entry(entry))
  },
  cancel = function(id) {
    entry <- entry_with_id(id)
    if (!is.null(entry) && !has_ended_as(state_of_entry(entry))) end_entry(entry)
    NULL
  },
  resume = function(id) {
    entry <- entry_with_id(id)
    if (!is.null(entry) && state_of_entry(entry) == "lost") resume_entry(entry)
    NULL
  },
  forget = function(id) {
    entry <- entry_with_id(id)
    if (!is.null(entry)) remove_entry(entry)
    NULL
  }
)

# NULL: there is none any more.
entry_with_id <- function(id) {
  entries <- all_entries()
  found <- entries[basename(entries) == id]
  if (length(found)) found[[1L]]
}
