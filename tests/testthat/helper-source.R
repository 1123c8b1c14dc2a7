# A package that tests develop: load_all() makes it of its source.

# Writes its source into a new folder: a function, one that is not exported and that it calls, a
# generic of S3 with a method, classes of S4 and of packages R6 and methods, data, a file, and C.
# `answer`: what its functions say. The value is the folder.
write_source_package <- function(folder = tempfile("pkg-"), answer = 1, name = "clutchdev",
                                 compiled = TRUE, imports = character()) {
  for (f in c("R", "data", "inst/extdata")) {
    dir.create(file.path(folder, f), recursive = TRUE, showWarnings = FALSE)
  }
  has_r6 <- requireNamespace("R6", quietly = TRUE)
  imports <- c("methods", "stats", if (has_r6) "R6", imports)
  put <- function(file, ...) writeLines(c(...), file.path(folder, file))
  put("DESCRIPTION", paste("Package:", name), "Version: 0.0.1", "Title: T", "Description: D.",
      "License: GPL-2", paste("Imports:", paste(imports, collapse = ", ")),
      "Author: A", "Maintainer: A <a@b.c>", "Encoding: UTF-8", "LazyData: true")
  put("NAMESPACE", "export(fun, by_c, new_point, new_counter, middle, answer, Square, area)",
      "exportClasses(Point)", "exportMethods(norm2, show)", "S3method(print, devthing)",
      "S3method(area, devsquare)", "import(methods)", "importFrom(stats, median)",
      if (has_r6) "importFrom(R6, R6Class)",
      if (compiled) sprintf("useDynLib(%s, .registration = TRUE)", name))
  put("R/code.R",
      sprintf("answer <- %s", answer), "helper <- function(x) x + answer",
      "fun <- function(x) helper(x)", "middle <- function(x) median(x) + answer",
      "area <- function(x) UseMethod('area')",
      "area.devsquare <- function(x) x$side^2 * answer",
      "Square <- function(side) structure(list(side = side), class = 'devsquare')",
      "print.devthing <- function(x, ...) cat('a thing of', answer, '\\n')",
      "setClass('Point', representation(x = 'numeric'))",
      "setGeneric('norm2', function(p) standardGeneric('norm2'))",
      "setMethod('norm2', 'Point', function(p) sum(p@x^2) * answer)",
      "setMethod('show', 'Point', function(object) cat('a point of', answer, '\\n'))",
      "new_point <- function(x) new('Point', x = x)",
      if (has_r6) c("Counter <- R6Class('Counter', public = list(n = 0,",
                    "  add = function() { self$n <- helper(self$n); invisible(self) }))",
                    "new_counter <- function() Counter$new()"),
      if (!has_r6) "new_counter <- function() NULL",
      "state <- new.env()",
      sprintf(".onLoad <- function(libname, pkgname) options(%s.loaded = answer)", name),
      if (compiled) "by_c <- function(x) .Call(C_twice, x)" else "by_c <- function(x) 2 * x")
  put("inst/extdata/note.txt", paste("note", answer))
  devdata <- data.frame(a = 1:3 * answer)
  save(devdata, file = file.path(folder, "data", "devdata.rda"))
  if (compiled) compile_source_package(folder, name, answer)
  folder
}

# As pkgbuild::compile_dll() does it, in this R's own way.
compile_source_package <- function(folder, name, answer) {
  dir.create(file.path(folder, "src"), showWarnings = FALSE)
  c_code <- c("#include <R.h>", "#include <Rinternals.h>", "#include <R_ext/Rdynload.h>",
    "static SEXP twice(SEXP x) {",
    sprintf("  return Rf_ScalarReal(2 * Rf_asReal(x) * %s);", answer), "}",
    "static const R_CallMethodDef calls[] = {{\"C_twice\", (DL_FUNC) &twice, 1}, {NULL, NULL, 0}};",
    sprintf("void R_init_%s(DllInfo *dll) {", name),
    "  R_registerRoutines(dll, NULL, calls, NULL, NULL);", "  R_useDynamicSymbols(dll, FALSE);",
    "}")
  writeLines(c_code, file.path(folder, "src", "code.c"))
  old <- setwd(file.path(folder, "src"))
  on.exit(setwd(old))
  unlink(list.files(pattern = "[.](o|so|dll)$"))
  library <- paste0(name, .Platform$dynlib.ext)
  system2(file.path(R.home("bin"), "R"), c("CMD", "SHLIB", "-o", library, "code.c"),
          stdout = FALSE, stderr = FALSE)
}

load_source_package <- function(folder, ...) {
  pkgload::load_all(folder, compile = FALSE, quiet = TRUE, helpers = FALSE,
                    attach_testthat = FALSE, ...)
}

can_develop <- function() {
  testthat::skip_if_not_installed("pkgload")
  outside_checks_only()
}
