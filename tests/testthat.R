library(testthat)
library(clutch)
test_check("clutch")
