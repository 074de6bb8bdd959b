// The table of cirrus' verbs and what it cites.
#include "apps/cirrus/table.h"

namespace cirrus::app {

Program table() {
  return {"cirrus",
          "Diffusion super-resolution of FITS maps of Galactic dust.",
          {
              {"enhance", "upscale FITS maps", nullptr},
              {"train", "train a super-resolution model on synthetic sky", nullptr},
              {"evaluate", "measure how well methods recover maps whose truth is known", nullptr},
              {"models", "list the models there are", nullptr},
              {"devices", "list the devices that can run here", nullptr},
          },
          R"(@inproceedings{karras2022edm,
  author = {Karras, Tero and Aittala, Miika and Aila, Timo and Laine, Samuli},
  title = {Elucidating the Design Space of Diffusion-Based Generative Models},
  booktitle = {NeurIPS},
  year = {2022},
  eprint = {2206.00364}
}
@inproceedings{karras2024edm2,
  author = {Karras, Tero and Aittala, Miika and Lehtinen, Jaakko and Hellsten, Janne and Aila, Timo and Laine, Samuli},
  title = {Analyzing and Improving the Training Dynamics of Diffusion Models},
  booktitle = {CVPR},
  year = {2024},
  eprint = {2312.02696}
}
@misc{lu2022dpmsolverpp,
  author = {Lu, Cheng and Zhou, Yuhao and Bao, Fan and Chen, Jianfei and Li, Chongxuan and Zhu, Jun},
  title = {DPM-Solver++: Fast Solver for Guided Sampling of Diffusion Probabilistic Models},
  year = {2022},
  eprint = {2211.01095}
}
@article{miville2007dust,
  author = {Miville-Desch{\^e}nes, M.-A. and Lagache, G. and Boulanger, F. and Puget, J.-L.},
  title = {Statistical properties of dust far-infrared emission},
  journal = {A\&A},
  volume = {469},
  pages = {595},
  year = {2007}
})"};
}

}  // namespace cirrus::app
