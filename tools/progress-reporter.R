# A reporter of testthat that says how far a suite is, for tools/progress-limit.sh and for whoever
# asks why a suite was ended. Its value: function(file, failed) that makes one.
#
# file: its first line names the test at hand; its second is a number that grows whenever a test
# file, a test or an expectation begins or ends, or a test calls option suite.progress (an option
# clutch.* would change how tasks begin).
# failed: gets the first lines of each failure, unless NULL.

function(file, failed = NULL) {
  # Says nothing where a test has used up descriptors, or R's connections
  note <- function(file, text, append) {
    tryCatch(
      suppressWarnings(cat(text, "\n", file = file, append = append, sep = "")),
      error = function(e) NULL
    )
  }
  reporter <- R6::R6Class(inherit = testthat::Reporter, public = list(
    test_file = "",
    events = 0L,
    at = function(where) {
      self$events <- self$events + 1L
      note(file, paste0(where, "\n", self$events), append = FALSE)
    },
    start_file = function(name) {
      self$test_file <- name
      self$at(paste0(name, ", before its first test"))
    },
    start_test = function(context, test) self$at(paste0(self$test_file, ": ", test)),
    end_test = function(context, test) {
      self$at(paste0(self$test_file, ", after the test: ", test))
    },
    end_reporter = function() self$at("the end, after the last test"),
    add_result = function(context, test, result) {
      self$at(paste0(self$test_file, ": ", test))
      if (!inherits(result, c("expectation_failure", "expectation_error"))) return(invisible())
      text <- utils::head(strsplit(conditionMessage(result), "\n", fixed = TRUE)[[1L]], 6L)
      text <- paste(c(paste0(self$test_file, ": ", test), text), collapse = "\n    ")
      if (!is.null(failed)) note(failed, text, append = TRUE)
    }
  ))$new()
  options(suite.progress = function(what) reporter$at(paste0(reporter$test_file, ": ", what)))
  reporter
}
