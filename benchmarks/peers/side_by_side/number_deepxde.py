import deepxde as dde
import numpy as np

x, y = np.loadtxt("decay.csv", delimiter=",", skiprows=1).T
k = dde.Variable(1.0)


def equation(x, u):
    return dde.grad.jacobian(u, x) + k * u**2


line = dde.geometry.Interval(0, 2)
start = dde.icbc.DirichletBC(line, lambda x: 1, lambda x, edge: edge and np.isclose(x[0], 0))
readings = dde.icbc.PointSetBC(x[:, None], y[:, None])
data = dde.data.PDE(line, equation, [start, readings], num_domain=40, num_boundary=2)
network = dde.nn.FNN([1, 20, 20, 20, 1], "tanh", "Glorot uniform")
model = dde.Model(data, network)
model.compile("adam", lr=1e-3, external_trainable_variables=[k])
model.train(iterations=20000)
print(f"k = {k.item():.4f}")
