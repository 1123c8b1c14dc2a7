# The progress bar of a map.

# `began`: when the map did, by clock(). A bar is made anew after it had to make room for a message,
# so that what it says of times is ours and not cli's.
progress_new <- function(progress, n, began) {
  signals <- !isFALSE(progress) && uses_progressr()
  if (!isTRUE(progress) && !signals && !interactive()) return(no_bar)
  bar <- new.env(parent = baseenv()) # the texts of the bar are evaluated in there
  bar$on <- if (is.null(progress)) signals || interactive() else isTRUE(progress)
  bar$n <- n
  bar$done <- 0
  if (!bar$on) return(bar)
  if (signals) {
    bar$step <- progressr::progressor(steps = n, envir = bar, on_exit = FALSE)
    return(bar)
  }
  bar$began <- began
  bar$next_at <- if (isTRUE(progress)) began else began + 1
  bar
}

# A map that shows nothing has this.
no_bar <- list(on = FALSE)

# `tell` is called some ten times a second with the number of elements that have ended, and of those
# among them that have failed.
bar_that_tells <- function(tell) list2env(list(on = TRUE, tell = tell), parent = baseenv())

uses_progressr <- function() {
  if (!isNamespaceLoaded("progressr") || !length(progressr::handlers())) return(FALSE)
  isTRUE(tryCatch(progressr::handlers(global = NA), error = function(e) FALSE))
}

# `failed`: how many of those that are done.
progress_show <- function(bar, done, failed = 0) {
  if (!is.null(bar$tell)) return(bar$tell(done, failed))
  if (!is.null(bar$step)) {
    if (done > bar$done) bar$step(amount = done - bar$done)
    bar$done <- done
    return(invisible())
  }
  now <- clock()
  if (now < bar$next_at) return(invisible())
  bar$done <- done
  bar$rate <- rate_text(done, now - bar$began)
  bar$left <- left_text(bar$n - done, done, now - bar$began)
  if (is.null(bar$id)) progress_begin(bar)
  tryCatch(
    cli::cli_progress_update(set = done, id = bar$id, .envir = bar),
    # user's code may remove all bars, as cli_progress_cleanup() does: then there is a new one
    error = function(e) bar$id <- NULL
  )
}

# cli is not to remove a bar because it is full: there are updates to come, and it would not know it
# any more.
progress_begin <- function(bar) {
  old <- options(cli.progress_show_after = 0)
  on.exit(options(old))
  bar$id <- cli::cli_progress_bar(
    total = bar$n,
    format = "{cli::pb_bar} {cli::pb_current}/{cli::pb_total} | {rate} | {left}",
    clear = TRUE,
    auto_terminate = FALSE,
    .auto_close = FALSE,
    .envir = bar
  )
}

rate_text <- function(done, seconds) {
  rate <- done / max(seconds, 1e-9)
  number <- function(x) format(signif(x, 2), scientific = FALSE, big.mark = ",", decimal.mark = ".")
  if (rate >= 1 || done == 0) return(paste0(number(rate), "/s"))
  paste(number(1 / rate), "s each")
}

left_text <- function(left, done, seconds) {
  if (done == 0) return("")
  s <- ceiling(left * seconds / done)
  if (s < 60) return(sprintf("%.0f s left", s))
  if (s < 3600) return(sprintf("%.0f min %.0f s left", s %/% 60, s %% 60))
  sprintf("%.0f h %.0f min left", s %/% 3600, s %% 3600 %/% 60)
}

# Makes room for what others write to the terminal: the bar comes back with progress_show(), a tenth
# of a second later.
progress_hide <- function(bar) {
  if (is.null(bar$id)) return(invisible())
  id <- bar$id
  bar$id <- NULL
  bar$next_at <- clock() + 0.1
  # others may have removed it
  tryCatch(cli::cli_progress_done(id = id, .envir = bar), error = function(e) NULL)
}

progress_end <- function(bar) {
  progress_hide(bar)
  if (is.null(bar$step)) return(invisible())
  if (bar$done < bar$n) tryCatch(bar$step(amount = 0, type = "finish"), error = function(e) NULL)
  bar$step <- NULL
}
