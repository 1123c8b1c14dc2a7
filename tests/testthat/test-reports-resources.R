# What a process has besides objects: files, folders, environment variables, options, devices,
# connections, libraries, packages, garbage.

own_way <- c("cluster_map", "cluster_submit", "foreach")

reports <- list(
  report("futureverse/furrr#281", "each element draws into a file of its own", {
    lap(1:2, function(i) {
      file <- tempfile(fileext = ".pdf")
      grDevices::pdf(file)
      graphics::plot(seq_len(i))
      grDevices::dev.off()
      file.size(file) > 1000
    })
  }),
  report("futureverse/furrr#27", "a device that an element leaves open is not the next one's", {
    lap(1:2, function(i) {
      grDevices::pdf(NULL)
      i
    })
    lap(1:2, function(i) length(grDevices::dev.list()))
  }, value = list(0L, 0L), ways = c(own_way, "mclapply")),
  report("tidyverse/ggplot2#6464", "a drawing without a device leaves no file behind", {
    folder <- tempfile("drawn-")
    dir.create(folder)
    lap(1:2, function(i, folder) {
      old <- setwd(folder)
      on.exit(setwd(old))
      grDevices::pdf(NULL)
      graphics::plot(1)
      grDevices::dev.off()
      i
    }, folder = folder)
    list.files(folder)
  }),
  report("futureverse/parallelly#359", "environment variables that an element sets and reads", {
    lap(1:2, function(i) {
      Sys.setenv(REPORTS_OWN = i)
      on.exit(Sys.unsetenv("REPORTS_OWN"))
      Sys.getenv("REPORTS_OWN")
    })
  }),
  report("futureverse/future#359", "a program that an element starts has its variables", {
    lap(1:2, function(i) {
      Sys.setenv(REPORTS_CHILD = paste("value", i))
      on.exit(Sys.unsetenv("REPORTS_CHILD"))
      system("echo $REPORTS_CHILD", intern = TRUE)
    })
  }),
  report("aemon-j/LakeEnsemblR#22", "a time zone within an element", {
    lap(list("UTC", "Asia/Tokyo"), function(tz) {
      old <- Sys.getenv("TZ", NA)
      Sys.setenv(TZ = tz)
      on.exit(if (is.na(old)) Sys.unsetenv("TZ") else Sys.setenv(TZ = old))
      format(as.POSIXct(0, origin = "1970-01-01"), "%H:%M")
    })
  }, value = list("00:00", "09:00")),
  report("wadpac/GGIR#1049", "a locale within an element", {
    lap(1:2, function(i) {
      old <- Sys.getlocale("LC_COLLATE")
      on.exit(Sys.setlocale("LC_COLLATE", old))
      Sys.setlocale("LC_COLLATE", "C")
      sort(c("b", "A", "a"))
    })
  }),
  report("futureverse/future#609", "options of the session are as they were", {
    before <- options()
    lap(1:2, function(i) {
      options(digits = 3, reports.own = i)
      i
    })
    now <- options()
    names(Filter(isFALSE, mapply(identical, before[c("digits", "warn", "scipen")],
                                 now[c("digits", "warn", "scipen")])))
  }, value = character()),
  report("futureverse/future#609", "an option that an element sets is not the next map's", {
    lap(1:2, function(i) {
      options(reports.kept = i)
      i
    })
    lap(1:2, function(i) is.null(getOption("reports.kept")))
  }, value = list(TRUE, TRUE), ways = own_way),
  report("r-lib/mirai#91", "variables that an element makes are not the next map's", {
    lap(1:4, function(i) assign("reports_left", i, envir = globalenv()))
    lap(1:2, function(i) exists("reports_left", globalenv()))
  }, value = list(FALSE, FALSE), ways = c("mclapply", "mirai_map")),
  report("wlandau/crew#143", "a package that an element attaches is not the next map's", {
    lap(1:2, function(i) {
      do.call(library, list("splines"))
      "package:splines" %in% search()
    })
    lap(1:2, function(i) "package:splines" %in% search())
  }, value = list(FALSE, FALSE), ways = "mclapply"),
  report("openpharma/rbmi#377", "libraries are those of the session", {
    all(vapply(lap(1:2, function(i) .libPaths()), identical, NA, .libPaths()))
  }, value = TRUE),
  report("r-lib/callr#114", "an R that an element starts has the libraries, too", {
    code <- shQuote("cat(.libPaths(), sep = '\\n')")
    theirs <- lap(1:2, function(i, code) {
      system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", code), stdout = TRUE)
    }, code = code)
    all(.libPaths() %in% theirs[[1]])
  }, value = TRUE, ways = c("cluster_map", "parLapply")),
  report("futureverse/furrr#78", "each element has temporary files of its own", {
    files <- unlist(lap(1:6, function(i) {
      file <- tempfile()
      writeLines(as.character(i), file)
      stopifnot(readLines(file) == as.character(i))
      file
    }))
    anyDuplicated(files)
  }, value = 0L),
  report("futureverse/furrr#78", "connections that an element opens and closes", {
    lap(1:2, function(i) {
      con <- textConnection(c("a", "b", "c"))
      on.exit(close(con))
      readLines(con, i)
    })
  }),
  report("futureverse/furrr#78", "all elements append to one file", {
    file <- tempfile()
    lap(1:6, function(i, to) cat(sprintf("line %d\n", i), file = to, append = TRUE), to = file)
    sort(readLines(file))
  }, value = sprintf("line %d", 1:6)),
  report("ropensci/targets#1023", "an element collects garbage, and finalizers run", {
    unname(lap(1:2, function(i) {
      ran <- 0
      local({
        e <- new.env()
        reg.finalizer(e, function(e) ran <<- ran + 1)
      })
      gc()
      ran
    }))
  }),
  report("futureverse/future#42", "locked bindings, active bindings, locked environments", {
    lap(1:2, function(i) {
      e <- new.env()
      makeActiveBinding("now", function() i * 2, e)
      assign("fixed", 1, e)
      lockBinding("fixed", e)
      lockEnvironment(e)
      c(e$now, tryCatch(assign("fixed", 2, e), error = function(e) -1),
        tryCatch(assign("new", 2, e), error = function(e) -2))
    })
  }),
  report("futureverse/globals#44", "an active binding of the workspace", {
    makeActiveBinding("reports_active", function() 21, globalenv())
    lap(1:2, function(i) reports_active * i)
  }, ways = "finds"),
  report("futureverse/globals#44", "a locked variable of the workspace", {
    reports_locked <- 5
    lockBinding("reports_locked", globalenv())
    v <- lap(1:2, function(i) reports_locked + i)
    unlockBinding("reports_locked", globalenv())
    v
  }, ways = "finds"),
  report("futureverse/future#259", "a table is changed by reference in its element only", {
    t <- data.table::data.table(a = 1:2)
    v <- lap(1:2, function(i, t) {
      t <- data.table::setalloccol(t)
      data.table::set(t, j = "b", value = i)
      t$b
    }, t = t)
    list(v, names(t))
  }, value = list(list(c(1L, 1L), c(2L, 2L)), "a"), needs = "data.table"),
  report("futureverse/future#804", "an object of package R6 is changed in its element only", {
    counter <- R6::R6Class("Counter", public = list(n = 0, add = function(k) {
      self$n <- self$n + k
      invisible(self)
    }))$new()
    v <- lap(1:2, function(i, counter) counter$clone()$add(i)$n, counter = counter)
    list(v, counter$n)
  }, value = list(list(1, 2), 0), needs = "R6"),
  report("futureverse/future#778", "a counter of a closure, and `<<-` in the workspace", {
    total_now <- 0
    lap(1:3, function(i) total_now <<- total_now + i)
    total_now
  }, value = 0, ways = "finds"),
  report("Rdatatable/data.table#1178", "a large vector is unharmed on its way", {
    x <- as.double(1:3e5)
    v <- lap(1:2, function(i, v) c(length(v), sum(v), v[[i]]), v = x)
    list(v, x[[3e5]])
  }, value = list(list(c(3e5, 45000150000, 1), c(3e5, 45000150000, 2)), 3e5)),
  report("Rdatatable/data.table#1178", "what an element writes another does not see", {
    x <- as.double(1:3e5)
    v <- lap(1:2, function(i, v) {
      v[[1]] <- v[[1]] + i
      v[[1]]
    }, v = x)
    list(v, x[[1]])
  }, value = list(list(2, 3), 1)),
  report("Rdatatable/data.table#1178", "a large value comes back whole", {
    v <- lap(1:2, function(i) rep(as.double(i), 3e5))
    vapply(v, sum, 1)
  }, value = c(3e5, 6e5)),
  report("futureverse/furrr#164", "Sys.time(), proc.time() and Sys.sleep()", {
    lap(1:2, function(i) {
      began <- proc.time()[[3]]
      Sys.sleep(0.01)
      c(inherits(Sys.time(), "POSIXct"), proc.time()[[3]] >= began)
    })
  }),
  report("futureverse/future.apply#80", "an element asks for cores, and gets an answer", {
    all(unlist(lap(1:2, function(i) is.numeric(parallel::detectCores()) && interactive() == FALSE)))
  }, value = TRUE),
  report("r-lib/mirai#80", "an element knows that it is not the session", {
    Sys.getpid() %in% unlist(lap(1:2, function(i) Sys.getpid()))
  }, value = FALSE)
)

test_reports(reports, without = c("crew", "clusterApplyLB", "clusterMap", "future_lapply",
                                  "future_map"))
