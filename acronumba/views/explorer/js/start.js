// @ts-check
// Builds the page, panel by panel, when the data has been read.
import { buildCompare } from "./compare.js";
import { buildDetail } from "./detail.js";
import { buildGraph } from "./graph.js";
import { buildKeys, recall, remember } from "./keys.js";
import { buildPlayer } from "./player.js";
import { buildPredict } from "./predict.js";
import { buildSchedule } from "./schedule.js";
import { buildSearch } from "./search.js";
import { buildHeader, buildKernels, buildSource } from "./source.js";
import { buildStages } from "./stages.js";

recall();
for (const build of [
  buildHeader, buildKernels, buildKeys, buildSource, buildStages, buildPlayer, buildPredict, buildSchedule, buildGraph,
  buildCompare, buildDetail, buildSearch, remember,
]) build();
document.documentElement.dataset.ready = "true";
