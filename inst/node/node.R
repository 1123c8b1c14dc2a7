options(clutch.joins = TRUE)
loadNamespace("clutch", lib.loc = commandArgs(TRUE)[[1L]])$.__node__(commandArgs(TRUE))
