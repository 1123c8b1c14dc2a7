# The samples of a process, as Rprof() has written them, and what of them is the user's.

# A line of the file is a stack, the innermost call first. Before a call there may be where it is
# at, as file#line:  1#2 "hot" 1#14 "FUN" ... "serve" "fork_server_main"
#
# list(calls, at): for each line a character vector, the outermost call first. `at` is "file:line",
# or "". `files`: the lines that number the files.
parse_stacks <- function(lines, files) {
  if (!length(lines)) return(list(calls = list(), at = list()))
  paths <- sub("^#File [0-9]+: ", "", files)
  numbers <- as.integer(sub("^#File ([0-9]+): .*$", "\\1", files))
  pieces <- strsplit(paste0(lines, " "), "\" ", fixed = TRUE)
  parse_one <- function(piece) {
    piece <- rev(piece[grepl("\"", piece, fixed = TRUE)])
    place <- ifelse(startsWith(piece, "\""), "", sub("^([0-9]+#[0-9]+) .*$", "\\1", piece))
    list(calls = sub("^[^\"]*\"", "", piece), at = place)
  }
  parsed <- lapply(pieces, parse_one)
  at <- lapply(parsed, function(x) {
    is_there <- nzchar(x$at)
    number <- as.integer(sub("#.*$", "", x$at[is_there]))
    line <- sub("^.*#", "", x$at[is_there])
    x$at[is_there] <- paste0(paths[match(number, numbers)], ":", line)
    x$at
  })
  list(calls = lapply(parsed, function(x) x$calls), at = at)
}

# R 4.2 writes of a very deep stack the inner end, and newer ones nothing. So long is a line then.
TRUNCATED_FROM <- 9900L

# Which frames of a stack are the user's: their numbers. `where`: "node" or "session".
user_frames <- function(calls, where, is_whole) {
  from <- if (where == "session") after_session(calls) else after_node(calls)
  n <- length(calls)
  if (is.na(from)) return(if (is_whole) integer() else seq_len(n))
  if (from > n) return(integer())
  from:n
}

# The first frame within the expression that is profiled.
after_session <- function(calls) {
  match(TRUE, calls %in% c("cluster_profile", "clutch::cluster_profile")) + 1L
}

# The first frame within the call or task of a node: see serve() in node-serve.R, and the loop of
# base R's workers.
after_node <- function(calls) {
  loop <- match(c("serve", "workCommand"), calls)
  inner <- if (is.na(loop[[1L]])) "do.call" else "withCallingHandlers"
  loop <- loop[!is.na(loop)]
  if (!length(loop)) return(NA_integer_)
  at <- which(calls == inner)
  at <- at[at > loop[[1L]]]
  if (!length(at)) return(length(calls) + 1L)
  from <- at[[1L]] + 1L
  if (from <= length(calls) && calls[[from]] == ".Call") from <- from + 1L
  after_wrappers(calls, from)
}

# A task begins with a function of ours that calls the user's: of maps (see with_function()), of
# loops of foreach (see iteration()), of mclapply() (see mc_on_node()).
after_wrappers <- function(calls, from) {
  is_at <- function(at, names) at <= length(calls) && calls[[at]] %in% names
  if (!is_at(from, "FUN")) return(from)
  while (is_at(from + 1L, ".f")) from <- from + 1L
  if (is_at(from + 1L, "eval") && is_at(from + 2L, "eval")) return(from + 2L)
  called <- match("..do", calls)
  if (!is_at(from + 1L, "mc_run") || is.na(called)) return(from)
  from <- called + 1L
  if (is_at(from, c("lapply", "call_one", "call_piece"))) from + 1L else from
}

is_of_foreach <- function(calls, at) {
  at > 2L && identical(calls[at - 2:0], c("FUN", "eval", "eval"))
}

# A frame of a task's function is called this: the function has no name of its own on a node.
TASK_FUNCTION <- ".f"
OURS <- "(clutch)"
COMPILER <- "<compiler>"
TRUNCATED <- "(deeper stack)"

# A function within which samples are of the profile itself: see profile-node.R.
OF_PROFILE <- "..clutch_profile.."

# The stacks of one process, without what is this package's. NULL in place of those that are left
# out.
user_stacks <- function(fetched, where) {
  x <- parse_stacks(fetched$stacks, fetched$files)
  whole <- nchar(fetched$stacks, "bytes") < TRUNCATED_FROM
  for (i in seq_along(x$calls)) {
    calls <- x$calls[[i]]
    if (OF_PROFILE %in% calls) {
      x$calls[i] <- list(NULL)
      next
    }
    mine <- user_frames(calls, where, whole[[i]])
    in_collection <- length(calls) > 0L && calls[[length(calls)]] == "<GC>"
    at <- x$at[[i]][mine]
    is_task <- where == "node" && length(mine) > 0L &&
      (calls[[mine[[1L]]]] == "FUN" || is_of_foreach(calls, mine[[1L]]))
    mine <- calls[mine]
    if (is_task) mine[[1L]] <- TASK_FUNCTION
    if (!length(mine) || identical(mine, "<GC>")) {
      mine <- c(OURS, if (in_collection) "<GC>")
      at <- character(length(mine))
    }
    if (!whole[[i]]) {
      mine <- c(TRUNCATED, mine)
      at <- c("", at)
    }
    # R compiles a function at its second call, in stacks of dozens of functions of its compiler
    compiles <- match("compiler:::tryCmpfun", mine)
    if (!is.na(compiles)) {
      mine <- c(mine[seq_len(compiles - 1L)], COMPILER)
      at <- c(at[seq_len(compiles - 1L)], "")
    }
    x$calls[[i]] <- mine
    x$at[[i]] <- at
  }
  x
}

# Joins what was fetched: `all`, by number of the node (0: the session) as text.
# list(samples, stacks): a data frame with a row a sample, and the stacks that these number.
join_samples <- function(all) {
  calls <- at <- list()
  samples <- list()
  for (key in names(all)) {
    one <- all[[key]]
    x <- user_stacks(one, if (key == "0") "session" else "node")
    n <- length(one$order)
    own <- data.frame(node = rep(as.integer(key), n), stack = one$order + length(calls))
    if (!is.null(one$memory)) own <- cbind(own, memory_of(one$memory))
    is_left_out <- vapply(x$calls, is.null, NA)
    samples[[key]] <- own[!is_left_out[one$order], , drop = FALSE]
    calls <- c(calls, x$calls)
    at <- c(at, x$at)
  }
  text <- vapply(seq_along(calls), function(i) paste(c(calls[[i]], at[[i]]), collapse = "\r"), "")
  first <- match(text, text)
  kept <- unique(first[!vapply(calls, is.null, NA)])
  samples <- do.call(rbind, unname(samples))
  rownames(samples) <- NULL
  if (is.null(samples)) samples <- data.frame(node = integer(), stack = integer())
  samples$stack <- match(first[samples$stack], kept)
  list(samples = samples, stacks = list(calls = calls[kept], at = at[kept]))
}

# MB of R's heap at each sample, and by how much it has grown since the sample before. The numbers
# are of words of 8 bytes, and of nodes of 56.
memory_of <- function(numbers) {
  mb <- colSums(numbers * c(8, 8, 56)) / 2^20
  data.frame(memory = mb, grown = pmax(c(0, diff(mb)), 0)[seq_along(mb)])
}
