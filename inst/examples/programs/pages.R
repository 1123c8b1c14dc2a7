# What is on 200 pages of a server that misbehaves? Tasks that wait, so that more processes than
# cores are of use. Some pages are slow, some are not there, and some never come the first time.
#
# The server is R's as well: package httpuv, in a process of its own. It ends with its cluster.

# In that process. It does not return.
serve <- function(port) {
  seen <- integer()
  respond <- function(request) {
    page <- as.integer(sub("/", "", request$PATH_INFO))
    answer <- list(status = 200L, headers = list(), body = paste("page", page))
    first <- !page %in% seen
    seen <<- c(seen, page)
    if (page %% 50 == 7) return(list(status = 404L, headers = list(), body = "no such page"))
    if (page %% 40 == 3 && first) return(promises::promise(function(resolve, reject) NULL))
    promises::promise(function(resolve, reject) {
      later::later(function() resolve(answer), if (page %% 10 == 5) 0.4 else 0.1)
    })
  }
  httpuv::startServer("127.0.0.1", port, list(call = respond))
  repeat later::run_now(1)
}

# A list: `url`, `task`, which is not to be garbage, and `stop`, a function.
start_server <- function() {
  cl <- clutch::make_cluster(1)
  port <- httpuv::randomPort()
  task <- clutch::cluster_submit_call(cl, serve, list(port))
  url <- sprintf("http://127.0.0.1:%d", port)
  while (is.na(fetch(paste0(url, "/1")))) Sys.sleep(0.1) # until it is up
  list(url = url, task = task, stop = function() clutch::stop_cluster(cl))
}

# The text of a page, or NA. It has a second to come, three times.
fetch <- function(url) {
  old <- options(timeout = 1)
  on.exit(options(old))
  why <- "" # what R says of a failure is the warning before the error
  note <- function(w) {
    why <<- conditionMessage(w)
    invokeRestart("muffleWarning")
  }
  for (k in 1:3) {
    text <- withCallingHandlers(try(readLines(url, warn = FALSE), silent = TRUE), warning = note)
    if (!inherits(text, "try-error")) return(text)
    if (grepl("404 Not Found", why)) break
  }
  NA_character_
}

if (sys.nframe() == 0L) { # run by Rscript
  library(clutch)
  server <- start_server()
  cl <- make_cluster(16)
  texts <- cluster_map_chr(cl, paste0(server$url, "/", 1:200), fetch, .chunk = 1)
  cat(sum(!is.na(texts)), "pages,", sum(is.na(texts)), "are not there\n")
  stop_cluster(cl)
  server$stop()
}
