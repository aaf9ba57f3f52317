import gpytorch
import numpy as np
import torch

x, y = torch.tensor(np.loadtxt("wave.csv", delimiter=",", skiprows=1)).T


class Model(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ZeroMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
model = Model(likelihood).double()
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(200):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    found = model(torch.tensor([0.5], dtype=torch.double))
print(f"u = {found.mean.item():.3f} ± {found.stddev.item():.3f}")
