options(clutch.joins = TRUE)
loadNamespace(
  "clutch",
  lib.loc = sub("^LIB=", "", grep("^LIB=", commandArgs(TRUE), value = TRUE)[[1L]])
)$.__join__(commandArgs(TRUE))
