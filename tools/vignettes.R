# Rscript tools/vignettes.R FOLDER
#
# Makes pages of the vignettes of the package in FOLDER, into its inst/doc, as R CMD build would;
# the package has to be in the library. Ends with status 1, and says why, where that cannot be done.

folder <- commandArgs(TRUE)[1L]
ready <- requireNamespace("knitr", quietly = TRUE) &&
  requireNamespace("rmarkdown", quietly = TRUE) &&
  rmarkdown::pandoc_available("1.12.3")
if (!ready) {
  message("without vignettes: knitr, rmarkdown or pandoc is missing")
  quit("no", status = 1L)
}
doc <- file.path(folder, "inst", "doc")
dir.create(doc, recursive = TRUE, showWarnings = FALSE)
tools::buildVignettes(dir = folder, tangle = FALSE, quiet = TRUE)
made <- tools::pkgVignettes(dir = folder, output = TRUE)
file.copy(c(made$docs, made$outputs), doc)
unlink(made$outputs)
