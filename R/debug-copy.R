# The session's side of a frozen copy (node-frozen.R): a connection, questions, answers.

# A list with functions send(x), receive(), interrupt() and close().
connect_copy <- function(copy) {
  here <- is_this_machine(copy$host)
  link <- if (here) near_copy(copy) else far_copy(copy)
  link$send(copy$key)
  link
}

near_copy <- function(copy) {
  socket <- tryCatch(
    suppressWarnings(socket_connect(path = copy$path, blocking = TRUE, open = "r+b", timeout = 1e6,
                                    slot = FALSE)),
    error = function(e) throw_copy_gone(copy)
  )
  list(
    send = function(x) socket_send(socket, x),
    receive = function() {
      repeat if (any(socket_select(list(socket), timeout = 3600))) break
      suspendInterrupts(tryCatch(socket_receive(socket), error = function(e) throw_copy_gone(copy)))
    },
    interrupt = function() tools::pskill(copy$pid, tools::SIGINT),
    close = function() close(socket)
  )
}

# On another host: by way of the copy's node, or, while that is busy, of another one there, which
# has the connection. It does that between tasks. Ctrl-C interrupts that call, and so the node,
# which passes it on.
far_copy <- function(copy) {
  is_busy <- isTRUE(copy$is_busy)
  node <- if (is_busy) idle_node_beside(copy) else node_of_plan(copy$tasks$info, copy$node)
  at <- structure(list(node), class = c("clutch_cluster", "cluster"))
  place <- copy[c("path", "pid")]
  call <- function(what, x = NULL) {
    tryCatch(parallel::clusterCall(at, pass_to_copy, place, what, x)[[1L]],
             error = function(e) throw_copy_gone(copy))
  }
  call("open")
  to_send <- NULL
  list(
    send = function(x) {
      if (is.character(x)) return(call("send", x))
      to_send <<- list(x)
    },
    receive = function() {
      x <- to_send
      to_send <<- NULL
      call("ask", x[[1L]])
    },
    interrupt = function() NULL,
    close = function() tryCatch(call("close"), error = function(e) NULL)
  )
}

idle_node_beside <- function(copy) {
  is_idle <- function(node) {
    identical(node$host, copy$host) && .Call(ffi_node_info, node$handle)$state == "idle"
  }
  node <- Find(is_idle, nodes_in_plan(copy$tasks$info))
  if (!is.null(node)) return(node)
  text <- "the copy of %s is asked by way of another node of its host, and all are busy"
  throw("gone", sprintf(text, name_of_copy(copy)))
}

throw_copy_gone <- function(copy) {
  text <- paste("the frozen copy of %s is not there any more: it ends with its node, when memory",
                "is short, and when later maps have failed elements")
  throw("gone", sprintf(text, name_of_copy(copy)))
}

name_of_copy <- function(copy) {
  on <- sprintf("node %d", copy$node)
  if (is.na(copy$element)) on else sprintf("element %.0f on %s", copy$element, on)
}

# Its answer. Ctrl-C interrupts what is evaluated there, and the answer is waited for; a second one
# within a second ends that, too.
ask_copy <- function(link, request) {
  request$options <- list(width = getOption("width"), digits = getOption("digits"),
                          max.print = getOption("max.print"))
  link$send(request)
  await_copy(link)
}

await_copy <- function(link) {
  repeat {
    answer <- tryCatch(link$receive(), interrupt = function(c) NULL)
    if (!is.null(answer)) break
    link$interrupt()
  }
  if (nzchar(answer$output)) cat(answer$output)
  if (!is.null(answer$plot)) show_plot(answer$plot)
  answer
}

show_plot <- function(plot) {
  tryCatch(suppressWarnings(grDevices::replayPlot(plot)), error = function(e) {
    message("the plot cannot be shown here: ", conditionMessage(e))
  })
}

# ---- the console ----

# The menu and the browser are as in utils::recover().
recover_in_copy <- function(link, labels) {
  repeat {
    k <- utils::menu(labels, title = "\nEnter a frame number, or 0 to exit  ")
    if (k == 0L || browse_copy(link, labels, k) == "Q") break
  }
}

# R's browser in frame `k`, until it is left: "Q" or "c".
browse_copy <- function(link, labels, k) {
  answer <- ask_without_output(link, list(ask = "browse", frame = k))
  cat("Called from: ", labels[[k]], "\n", sep = "")
  while (is.null(answer$done)) {
    line <- line_at_prompt(answer$prompt)
    is_command <- startsWith(answer$prompt, "Browse")
    if (is_command && trimws(line) == "Q") return("Q")
    if (is_command && trimws(line) %in% c("where", "q()", "quit()")) {
      if (trimws(line) == "where") show_where(labels, k) else cat("Q leaves, c goes back\n")
      next
    }
    link$send(list(line = line))
    answer <- await_copy(link)
  }
  "c"
}

# R says from where browser() was called, which is of no use here.
ask_without_output <- function(link, request) {
  utils::capture.output(answer <- ask_copy(link, request))
  answer
}

show_where <- function(labels, k) {
  cat(sprintf("where %d: %s\n", seq_len(k), rev(labels[seq_len(k)])), "\n", sep = "")
}
