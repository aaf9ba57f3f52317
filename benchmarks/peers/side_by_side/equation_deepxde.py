import deepxde as dde


def equation(x, u):
    laplacian = dde.grad.hessian(u, x, i=0, j=0) + dde.grad.hessian(u, x, i=1, j=1)
    return -laplacian + u**3 - 10


square = dde.geometry.Rectangle([0, 0], [1, 1])
zero = dde.icbc.DirichletBC(square, lambda x: 0, lambda x, on_boundary: on_boundary)
data = dde.data.PDE(square, equation, zero, num_domain=400, num_boundary=120)
network = dde.nn.FNN([2, 40, 40, 40, 1], "tanh", "Glorot uniform")
model = dde.Model(data, network)
model.compile("adam", lr=1e-3)
model.train(iterations=5000)
model.compile("L-BFGS")
model.train()
print(f"u = {model.predict([[0.5, 0.5]])[0, 0]:.6f}")
